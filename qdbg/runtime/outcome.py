"""One launch from beginning to end without a person watching, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.compiler.machine.isa import Trap
from qdbg.runtime.interpreter import Fault, Interpreter
from qdbg.runtime.launcher import Prepared, open_session
from qdbg.runtime.outputs import content, outputs
from qdbg.runtime.session import Control, Session
from qdbg.runtime.view import thread_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.engine import Engine


@dataclass(frozen=True)
class Outcome:
    """The result of a launch.

    tokens, passes: generated tokens up to and including the end token, and passes made for them; None
    on the interpreter, like everything about the model.  exact: every array and every traced register
    equals the interpreter's.  expected: the arrays are what the file states, None if it states nothing
    or the launch did not end.  trap, stopped: a sentence each, why the launch ended early.
    """

    kernel: str
    engine: str
    checkpoint_sha256: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lanes: int
    layers: int | None
    prompt_tokens: int | None
    tokens: int | None
    passes: int | None
    ptx_instructions: int
    seconds: float
    exact: bool | None
    expected: bool | None
    trap: str | None
    mismatches: list[str] = field(default_factory=list)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopped: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `run --json` prints."""
        result = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "stopped"}
        result["grid"], result["block"] = list(self.grid), list(self.block)
        result["seconds"] = round(self.seconds, 3)
        return result


def run_on_engine(
    prepared: Prepared,
    engine: Engine,
    checkpoint: Checkpoint | None,
    max_passes: int,
    progress: Callable[[int], None] = lambda passes: None,
) -> Outcome:
    """Run a launch in lock-step with the interpreter, up to its end, the first mismatch or the limit.

    `progress` is called with the passes made, after each.
    """
    session = open_session(prepared, engine, "", max_passes)
    start = time.perf_counter()
    session.start()
    session.proceed(Control(progress=lambda glimpse: progress(glimpse.passes)))
    seconds = time.perf_counter() - start

    ended = session.trace.ended and session.trace.trap is None
    memory = session.engine.state().memory
    unexpected = _unexpected(prepared, memory) if ended else []
    mismatches = [str(session.mismatch)] if session.mismatch else []
    return Outcome(
        kernel=prepared.kernel,
        engine=engine.name,
        checkpoint_sha256=checkpoint.sha256 if checkpoint else None,
        grid=prepared.bound.grid,
        block=prepared.bound.block,
        lanes=prepared.config.lanes,
        layers=checkpoint.layers if checkpoint else None,
        prompt_tokens=len(prepared.image.ids),
        tokens=len(session.tokens),
        passes=engine.passes,
        ptx_instructions=session.lockstep.issued,
        seconds=seconds,
        exact=not mismatches if session.trace.ended or mismatches else None,
        mismatches=mismatches + unexpected,
        expected=not unexpected if ended and prepared.bound.expectations else None,
        trap=_trap_sentence(session) if session.trace.trap else None,
        outputs=outputs(prepared.bound, memory),
        stopped=None
        if session.trace.ended or mismatches
        else _limit_sentence(prepared, max_passes, "passes"),
    )


def run_on_interpreter(prepared: Prepared, max_instructions: int) -> Outcome:
    """Run a launch on the reference interpreter alone."""
    interpreter = Interpreter(prepared.source.ptx, prepared.bound)
    trap: str | None = None
    start = time.perf_counter()
    try:
        while not interpreter.finished and interpreter.instructions < max_instructions:
            interpreter.step()
    except Fault as fault:
        trap = str(fault)
    seconds = time.perf_counter() - start

    size = -(-prepared.bound.memory_end // 4) * 4 - MEMORY_BASE
    data = np.zeros(max(size, 0), np.uint8)
    laid_out = interpreter.memory[MEMORY_BASE:][: len(data)]
    data[: len(laid_out)] = laid_out
    memory = data.view(np.uint32)
    unexpected = _unexpected(prepared, memory) if interpreter.finished else []
    unfinished = trap is None and not interpreter.finished
    return Outcome(
        kernel=prepared.kernel,
        engine="interpreter",
        checkpoint_sha256=None,
        grid=prepared.bound.grid,
        block=prepared.bound.block,
        lanes=prepared.config.lanes,
        layers=None,
        prompt_tokens=None,
        tokens=None,
        passes=None,
        ptx_instructions=interpreter.instructions,
        seconds=seconds,
        exact=None,
        mismatches=unexpected,
        expected=not unexpected if interpreter.finished and prepared.bound.expectations else None,
        trap=trap,
        outputs=outputs(prepared.bound, memory),
        stopped=_limit_sentence(prepared, max_instructions, "PTX instructions") if unfinished else None,
    )


def _unexpected(prepared: Prepared, memory: NDArray[np.uint32]) -> list[str]:
    """A sentence for each array that is not as the file states, about its first wrong element."""
    arrays = {allocation.name: allocation for allocation in prepared.bound.allocations}
    sentences: list[str] = []
    for expectation in prepared.bound.expectations:
        actual = content(memory, arrays[expectation.name])
        wrong = expectation.mismatches(actual)
        if len(wrong):
            first = int(wrong[0])
            more = f" ({len(wrong)} of {len(actual)} elements are wrong)" if len(wrong) > 1 else ""
            sentences.append(
                f"{expectation.origin}: {expectation.name}[{first}] is {actual[first]}, "
                f"expected {expectation.values[first]}{more}"
            )
    return sentences


def _limit_sentence(prepared: Prepared, limit: int, unit: str) -> str:
    return (
        f"{prepared.source.path}: {prepared.kernel} did not end within {limit:,} {unit}; "
        "raise --max-passes if it is no endless loop"
    )


def _trap_sentence(session: Session) -> str:
    """Which lane trapped where, why, and in which PTX instruction."""
    assert session.trace.trap is not None
    lane, reason, pc = session.trace.trap
    source, bound = session.source, session.bound
    code = session.program.code[pc]
    instruction = bound.kernel.body[max(code.ptx)] if code.ptx else None
    thread = thread_index(lane, bound.block)
    who = f"lane {lane} (thread {thread}, block {session.trace.block})"
    if instruction is None:
        return f"{source.path}: {who} trapped: {_REASONS[reason]}"
    line = source.cuda_line(instruction)
    where = f"{source.path}:{line}" if line else f"{source.ptx.path}:{instruction.line}"
    at = f"`{instruction.text.strip()}` (PTX line {instruction.line})"
    if reason is Trap.UNSUPPORTED:
        return f"{where}: {who} reached {at}: the machine has no {instruction.name}"
    return f"{where}: {who} trapped at {at}: {_REASONS[reason]}"


_REASONS = {
    Trap.OUT_OF_BOUNDS: "out of bounds, the word belongs to no array",
    Trap.MISALIGNED: "misaligned, the address is not a multiple of 4",
    Trap.UNSUPPORTED: "the machine lacks the instruction",
    Trap.USER: "the kernel trapped itself, or a barrier can never complete",
}
