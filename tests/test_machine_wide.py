"""Instructions over memory and over warps on the simulated circuits: every token as the architecture says."""

from __future__ import annotations

import pytest
from machines import SMALL, run_circuits

from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.config import MEMORY_BASE, MachineConfig
from qdbg.compiler.machine.isa import LANE_INDEX as LANE
from qdbg.compiler.machine.isa import NONE, Cond, Instr, Op, Pattern, Program, Reg, Width
from qdbg.compiler.machine.vocabulary import Kind, Token, prompt
from qdbg.runtime.emulator import Emulator

#: As many lanes as there are, more than one clock can count; everything else as small as possible.
WIDE = MachineConfig(lanes=128, registers=8, uniforms=64, slots=2, program=64, words=64)
HALT = Instr(Op.HALT)
LEFT, REST = Pattern(2, 2), Pattern(2, 0)
V = [Reg(i) for i in range(8)]
U = [Reg(i, uniform=True) for i in range(10)]
WORDS = 40
#: What many lanes take few passes for.
SHORT = ("counts", "masks and lanes", "shared loads")


def _programs() -> dict[str, list[Instr]]:
    base = MEMORY_BASE
    split = Instr(Op.CBR, slot=1, a=LANE, immediate=3, immediate_is_b=True, cond=Cond.LT)
    return {
        "high words": [
            Instr(Op.ADD, V[1], LANE, immediate=5),
            Instr(Op.MAD, V[2], V[1], V[1], V[1]),
            Instr(Op.MADH, V[3], V[2], U[1], LANE),
            Instr(Op.MADS, V[4], V[2], U[1]),
            Instr(Op.ADDH, V[5], U[1], c=V[1], scale=3),
        ],
        "counts": [
            Instr(Op.MAD, V[1], LANE, U[1]),
            Instr(Op.POPC, V[2], V[1]),
            Instr(Op.CLZ, V[3], LANE),
            Instr(Op.BREV, V[4], LANE),
        ],
        "masks and lanes": [
            Instr(Op.MASK, U[3]),
            Instr(Op.SUB, V[1], LANE, immediate=7),
            Instr(Op.AND, V[2], V[1], immediate=3, immediate_is_b=True),
            Instr(Op.SHFL, V[3], V[1], V[2]),
            Instr(Op.SHFL, U[2], V[1], immediate=2, immediate_is_b=True, pattern=Pattern()),
            split,
            Instr(Op.MASK, U[4], pattern=LEFT),
            Instr(Op.MASK, U[4], scale=1, pattern=REST),
            Instr(Op.MASK, V[4], pattern=REST),
            Instr(Op.ADD, U[5], LANE, pattern=REST),
            Instr(Op.ADD, U[6], V[1], immediate=1, pattern=REST),
        ],
        "narrow loads": [
            Instr(Op.LD, V[1], LANE, immediate=base, width=Width.BYTE),
            Instr(Op.LD, V[2], LANE, immediate=base + 8, width=Width.BYTE, signed=True),
            Instr(Op.LD, V[3], U[8], scale=1, immediate=base, width=Width.HALF, signed=True),
            Instr(Op.LD, U[4], immediate=base + 6, width=Width.HALF),
            Instr(Op.LD, U[4], immediate=base + 8, width=Width.PAIR),
            Instr(Op.LD, U[4], immediate=base + 16, width=Width.QUAD),
            Instr(Op.LDA, V[4], U[8], LANE, immediate=base + 20),
            Instr(Op.LDA, V[5], U[8], U[1], V[2], immediate=base + 16),
            Instr(Op.LDA, U[5], b=U[1], immediate=base + 24),
            Instr(Op.LDA, V[5], LANE, scale=2, immediate=base, immediate_is_b=False),
        ],
        "read, modify, write": [
            Instr(Op.HOLD, V[1], immediate=base + 4),
            Instr(Op.ADD, a=V[1], c=LANE, immediate=1, held=True),
            Instr(Op.HOLD, V[2], LANE, immediate=base, width=Width.BYTE),
            Instr(Op.INSERT, a=V[2], b=LANE, held=True, width=Width.BYTE),
            Instr(Op.HOLD, V[4], immediate=base + 8),
            Instr(Op.CHOOSE, a=V[4], b=U[0], c=LANE, cond=Cond.EQ, held=True),
            Instr(Op.HOLD, V[5], immediate=base + 12),
            Instr(Op.PICK, a=V[5], b=LANE, cond=Cond.GT, held=True),
            Instr(Op.HOLD, V[5], immediate=base + 16),
            Instr(Op.SEL, a=NONE, b=LANE, held=True),
            split,
            Instr(Op.HOLD, V[3], c=U[8], immediate=base + 2, width=Width.HALF, pattern=LEFT),
            Instr(Op.INSERT, a=V[3], b=U[1], held=True, width=Width.HALF, pattern=LEFT),
            Instr(Op.LD, U[9], immediate=base + 16),
        ],
        "quad alignment": [Instr(Op.LD, V[3], LANE, scale=2, immediate=base, width=Width.QUAD)],
        "pair alignment": [Instr(Op.ST, a=LANE, b=LANE, scale=2, immediate=base, width=Width.PAIR)],
        "half alignment": [Instr(Op.LD, V[3], LANE, immediate=base, width=Width.HALF)],
        "held alignment": [Instr(Op.HOLD, V[1], immediate=base + 1), Instr(Op.ADD, a=V[1], held=True)],
        "shared loads": [Instr(Op.LD, V[3], LANE, scale=2, immediate=base, shared=True)],
        "shared stores": [Instr(Op.ST, a=LANE, b=LANE, scale=2, immediate=base + 12, shared=True)],
        "trap": [Instr(Op.TRAP, immediate=6)],
    }


@pytest.mark.parametrize(("config", "threads"), [(SMALL, 8), (SMALL, 5), (WIDE, 70)])
def test_circuits_say_what_the_architecture_says(config: MachineConfig, threads: int) -> None:
    programs = _programs()
    chosen = [name for name in programs if config is SMALL or name in SHORT]
    words = {MEMORY_BASE + 4 * i: 0x01020384 * (i + 1) & 0xFFFFFFFF for i in range(WORDS)}
    prompts = [
        prompt(
            Program((*programs[name], HALT)), {0: 7, 1: 0x87654321}, words,
            [(MEMORY_BASE, 4 * WORDS)], threads, (MEMORY_BASE, 4 * 4),
        )
        for name in chosen
    ]  # fmt: skip
    found, _ = run_circuits(machine(config), prompts)
    for name, tokens, given in zip(chosen, found, prompts, strict=True):
        assert [str(t) for t in tokens] == [str(t) for t in _emulated(config, given)], name


def _emulated(config: MachineConfig, given: list[Token]) -> list[Token]:
    emulator = Emulator(config)
    vocabulary = emulator.vocabulary
    tokens = [vocabulary.token(emulator.prefill([vocabulary[t] for t in given]))]
    while tokens[-1].kind is not Kind.END:
        tokens.append(vocabulary.token(emulator.step()))
    return tokens
