"""What came of a launch: in one sentence if something is wrong, and as an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdbg.cli.failure import Exit
from qdbg.compiler.machine.config import WARP
from qdbg.compiler.machine.isa import Trap
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.outcome import array
from qdbg.runtime.view import thread_index

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdbg.compiler.ptx.ir import Instruction
    from qdbg.compiler.source import Source
    from qdbg.runtime.launcher import Prepared
    from qdbg.runtime.outcome import Outcome
    from qdbg.runtime.trace import Trace

Verdict = tuple[str | None, Exit]

_REASONS = {
    Trap.OUT_OF_BOUNDS: "out of bounds, the word belongs to no array",
    Trap.MISALIGNED: "misaligned, the address is no multiple of what is accessed",
    Trap.UNSUPPORTED: "this version of the machine lacks the instruction",
    Trap.USER: "the kernel trapped itself",
    Trap.BARRIER: "the machine needs all threads at this barrier that have not exited, and this one is "
    "elsewhere; let the whole block reach one instruction, or use --engine interpreter",
    Trap.ASSERT: "an assertion failed",
    Trap.RECURSION: "the machine has no call stack; a recursive call needs --engine interpreter",
}


def judge(prepared: Prepared, outcome: Outcome, trace: Trace, memory: NDArray[np.uint32]) -> Verdict:
    """The verdict on a launch that the machine ran; memory: words from MEMORY_BASE on."""
    if outcome.mismatch is not None:
        return f"{prepared.source.ptx.path}: {outcome.mismatch}", Exit.MISMATCH
    if outcome.expected is False:
        return unexpected(prepared, memory)
    if outcome.trap is not None:
        return trap_sentence(prepared, trace), Exit.UNSUPPORTED
    return None, Exit.OK


def unexpected(prepared: Prepared, memory: NDArray[np.uint32]) -> Verdict:
    """The first element that is not as the file states, if there is one."""
    arrays = {allocation.name: allocation for allocation in prepared.bound.allocations}
    for expectation in prepared.bound.expectations:
        allocation = arrays[expectation.name]
        actual = array(memory, allocation.address, allocation.data)
        wrong = expectation.mismatches(actual)
        if len(wrong):
            first = int(wrong[0])
            rest = f" ({len(wrong)} of {len(actual)} elements are wrong)" if len(wrong) > 1 else ""
            sentence = (
                f"{expectation.origin}: {expectation.name}[{first}] is {actual[first]}, "
                f"expected {expectation.values[first]}{rest}"
            )
            return sentence, Exit.MISMATCH
    return None, Exit.OK


def trap_sentence(prepared: Prepared, trace: Trace) -> str:
    """Which lane trapped where, in which instruction, and why."""
    assert trace.trap is not None
    lane, reason, pc = trace.trap
    thread = thread_index(lane, prepared.bound.block)
    who = "warp {} lane {}".format(*divmod(lane, WARP))
    index = Correspondence(trace.program, prepared.bound.kernel).trapping(pc)
    why = _REASONS[reason]
    if reason is Trap.UNSUPPORTED and index in trace.program.lacking:
        lacking = trace.program.lacking[index]
        why = f"this version of the machine lacks {lacking}; --engine interpreter may run it"
    sentence = f"{who} (thread {thread}, block {trace.block}) trapped: {why}"
    if index is None:
        return f"{prepared.source.path}: {sentence}"
    instruction = prepared.bound.kernel.body[index]
    what = f"`{instruction.text.strip()}` (PTX line {instruction.line})"
    return f"{place(prepared.source, instruction)}: {sentence}: {what}"


def place(source: Source, instruction: Instruction) -> str:
    """Where a person finds an instruction: the line of the CUDA file, else of the PTX."""
    line = source.cuda_line(instruction)
    return f"{source.path}:{line}" if line is not None else f"{source.ptx.path}:{instruction.line}"
