"""Compiles a launch and runs it in the emulator, for the compiler's tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ptx_runner import interpreter, source

from qdbg.compiler.machine.config import LINE, MEMORY_BASE, NANO, MachineConfig
from qdbg.compiler.machine.isa import LANE_INDEX, LANE_OPS, VALUE_OPS, Op, Program
from qdbg.compiler.machine.vocabulary import Kind, Token
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter.errors import Fault
from qdbg.runtime.launch import BoundLaunch, launch_for
from qdbg.runtime.launcher import Prepared, bind_for
from qdbg.runtime.state import MachineState

_STARTS = (Kind.PC, Kind.STEP, Kind.LAST)


@dataclass
class Result:
    """A launch that has run: its program, its prompt, the tokens generated and the final state."""

    program: Program
    bound: BoundLaunch
    prompt: list[Token]
    tokens: list[Token]
    state: MachineState

    def array(self, name: str) -> NDArray[np.generic]:
        """An array of the launch after it."""
        return array_of(self.bound, self.state.memory, name)

    @property
    def trap(self) -> str | None:
        """The trap that ended the launch, as text."""
        return next((str(t) for t in self.tokens if t.kind is Kind.TRAP), None)


def array_of(bound: BoundLaunch, memory: NDArray[np.uint32], name: str) -> NDArray[np.generic]:
    """An array of a launch, cut out of the machine's memory, uint32 [words]."""
    found = next(a for a in bound.allocations if a.name == name)
    start = found.address - MEMORY_BASE
    return memory.view(np.uint8)[start : start + found.size].view(found.data.dtype)


def prompt_of(text: str, config: MachineConfig = NANO) -> tuple[Program, BoundLaunch, list[Token]]:
    """The first launch of a PTX text, compiled: program, bound launch and prompt."""
    loaded = source(text)
    bound = bind_for(config, loaded, launch_for(loaded))
    image = Prepared(loaded, bound, config).image
    return image.program, bound, image.tokens


def check_layout(program: Program) -> None:
    """The rules of `isa` that the hardware relies on and does not check; NOP only fills gaps behind jumps."""
    for pc, instr in enumerate(program.code):
        last = pc % LINE == LINE - 1 or pc == len(program.code) - 1
        if last:
            assert instr.op in (Op.BR, Op.HALT, Op.TRAP, Op.NOP), (
                f"control falls through the end of a line at {pc}"
            )
        elif instr.op is Op.HOLD:
            other = program.code[pc + 1]
            assert (other.held, other.pattern) == (True, instr.pattern), f"{pc} is a HOLD by itself"
        elif instr.op in VALUE_OPS and not (instr.uniform or instr.unchained or instr.held):
            assert program.code[pc + 1].pattern == instr.pattern, f"{pc} is chained to another pattern"
        assert instr.op is not Op.SHFL or LANE_INDEX not in (instr.a, instr.b), f"{pc} shuffles lane numbers"
        if instr.uniform:
            operands = [r for r in (instr.a, instr.b, instr.c) if str(r) != "-"]
            picks = instr.op in (Op.ADD, Op.SHFL)  # the first active lane, or the one that is named
            assert picks or all(r.uniform for r in operands), f"{pc} is uniform and reads a vector register"


def emulate(text: str, config: MachineConfig = NANO, limit: int = 200_000) -> Result:
    """Run the first launch of a PTX text to its end, and check that every vector instruction finds a lane."""
    program, bound, tokens = prompt_of(text, config)
    check_layout(program)
    emulator = Emulator(config)
    vocabulary = emulator.vocabulary
    newest = vocabulary.token(emulator.prefill([vocabulary[t] for t in tokens]))
    generated = [newest]
    while newest.kind is not Kind.END:
        assert len(generated) < limit
        starts = newest.kind in _STARTS or newest.last
        newest = vocabulary.token(emulator.step())
        generated.append(newest)
        if starts and newest.kind is Kind.STEP:
            instr = program.code[emulator.pc or 0]
            assert instr.held or instr.op not in LANE_OPS - {Op.ST}, f"{instr} was reached by no lane"
    return Result(program, bound, tokens, generated, emulator.state())


def same_as_interpreter(text: str) -> Result:
    """Run a launch on the machine and check that the interpreter ends likewise, with the same arrays."""
    result, reference = emulate(text), interpreter(text)
    try:
        reference.run(2_000_000)
    except Fault:
        assert result.trap is not None
        return result
    assert result.trap is None, result.trap
    for allocation in result.bound.allocations:
        np.testing.assert_array_equal(
            result.array(allocation.name), reference.array(allocation.name), allocation.name
        )
    return result
