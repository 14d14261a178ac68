"""Compiles a launch and runs it in the emulator, for the compiler's tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ptx_runner import source

from qdbg.compiler.lowering import Geometry, lower
from qdbg.compiler.machine.config import MEMORY_BASE, NANO, MachineConfig
from qdbg.compiler.machine.isa import Program
from qdbg.compiler.machine.vocabulary import Kind, Token, prompt
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch import BoundLaunch, bind, launch_for
from qdbg.runtime.state import MachineState


@dataclass
class Result:
    """A launch that has run: its program, the tokens generated and the final state."""

    program: Program
    bound: BoundLaunch
    tokens: list[Token]
    state: MachineState

    def array(self, name: str) -> NDArray[np.generic]:
        """An array of the launch after it."""
        found = next(a for a in self.bound.allocations if a.name == name)
        start = found.address - MEMORY_BASE
        return self.state.memory.view(np.uint8)[start : start + found.size].view(found.data.dtype)

    @property
    def trap(self) -> str | None:
        """The trap that ended the launch, as text."""
        return next((str(t) for t in self.tokens if t.kind is Kind.TRAP), None)


def prompt_of(text: str, config: MachineConfig = NANO) -> tuple[Program, BoundLaunch, list[Token]]:
    """The first launch of a PTX text, compiled: program, bound launch and prompt."""
    loaded = source(text)
    bound = bind(loaded, launch_for(loaded), config.lanes, 4 * config.words)
    geometry = Geometry(bound.grid, bound.block, bound.shared_base, bound.symbols)
    program = lower(loaded.ptx, bound.kernel, geometry, config)
    words = np.frombuffer(bound.parameters.ljust(-(-len(bound.parameters) // 4) * 4, b"\0"), "<u4")
    uniforms = dict(program.uniforms) | {r: int(words[w]) for r, w in program.parameters.items()}
    memory: dict[int, int] = {}
    for allocation in bound.allocations:
        data = allocation.data.tobytes()
        for i in range(0, len(data), 4):
            memory[allocation.address + i] = int.from_bytes(data[i : i + 4], "little")
    allocated = [(a.address, a.size) for a in bound.allocations]
    if bound.shared_bytes:
        allocated.append((bound.shared_base, bound.shared_bytes))
    return program, bound, prompt(program, uniforms, memory, allocated, bound.threads)


def emulate(text: str, config: MachineConfig = NANO, limit: int = 200_000) -> Result:
    """Run the first launch of a PTX text to its end."""
    program, bound, tokens = prompt_of(text, config)
    emulator = Emulator(config)
    vocabulary = emulator.vocabulary
    generated = [vocabulary.token(emulator.prefill([vocabulary[t] for t in tokens]))]
    while generated[-1].kind is not Kind.END:
        assert len(generated) < limit
        generated.append(vocabulary.token(emulator.step()))
    return Result(program, bound, generated, emulator.state())
