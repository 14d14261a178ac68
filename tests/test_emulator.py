"""The emulator against token streams worked out by hand from the instruction set's rules."""

from __future__ import annotations

import pytest

from qdbg.compiler.machine.alu import evaluate
from qdbg.compiler.machine.config import MEMORY_BASE, TINY
from qdbg.compiler.machine.encoding import SLOT_BASE
from qdbg.compiler.machine.isa import LANE_INDEX, NONE, Cond, Instr, Op, Pattern, Program, Reg
from qdbg.compiler.machine.vocabulary import Kind, prompt
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.state import MachineState

HALT = Instr(Op.HALT)
ONLY_SET = Pattern(1, 1)
ONLY_CLEAR = Pattern(1, 0)


def run(*code: Instr, threads: int = 4, words: tuple[int, ...] = (0,) * 8) -> tuple[list[str], MachineState]:
    """Tokens, as text, and final state of a program whose memory is one allocation of `words`."""
    memory = {MEMORY_BASE + 4 * i: w for i, w in enumerate(words)}
    tokens = prompt(Program(code), {1: 100}, memory, [(MEMORY_BASE, 4 * len(words))], threads)
    emulator = Emulator(TINY)
    ids = [emulator.prefill([emulator.vocabulary[t] for t in tokens])]
    while emulator.vocabulary.token(ids[-1]).kind is not Kind.END:
        assert len(ids) < 200
        ids.append(emulator.step())
    assert emulator.passes == len(ids)
    return [str(emulator.vocabulary.token(i)) for i in ids], emulator.state()


def constant(value: int, **more: object) -> Instr:
    return Instr(Op.ADD, Reg(1), immediate=value, **more)  # type: ignore[arg-type]


def split_by_lane(below: int) -> Instr:
    """CBR that sets slot 0 in the lanes below `below`."""
    return Instr(Op.CBR, a=LANE_INDEX, immediate=below, immediate_is_b=True, cond=Cond.LT)


def test_a_value_takes_as_many_chunks_as_its_sign_extension_needs() -> None:
    for value, tokens in (
        (0, ["<last 0x0>"]),
        (1023, ["<last 0x3ff>"]),
        (-1024, ["<last 0x400>"]),
        (1024, ["<more 0x400>", "<last 0x0>"]),
        (0x1FFFFF, ["<more 0x7ff>", "<last 0x3ff>"]),
        (0x200000, ["<more 0x0>", "<more 0x400>", "<last 0x0>"]),
        (0xDEADBEEF, ["<more 0x6ef>", "<more 0x5b7>", "<last 0x37a>"]),
    ):
        got, state = run(constant(value), HALT, threads=1)
        assert got == [*tokens, "<end>"]
        assert state.registers[0, 1] == value & 0xFFFFFFFF


def test_every_lane_runs_and_the_last_one_starts_the_next_instruction() -> None:
    tokens, state = run(Instr(Op.ADD, Reg(2), LANE_INDEX, scale=1, c=Reg(1, uniform=True)), HALT)
    assert tokens == ["<result 0x64>", "<result 0x66>", "<result 0x68>", "<last 0x6a>", "<end>"]
    assert list(state.registers[:, 2]) == [100, 102, 104, 106]


def test_a_uniform_instruction_runs_once() -> None:
    tokens, state = run(Instr(Op.SUB, Reg(3, uniform=True), Reg(1, uniform=True), c=NONE, immediate=1), HALT)
    assert tokens == ["<last 0x79d>", "<end>"]
    assert state.uniforms[3] == 2**32 - 99


def test_lanes_that_do_not_match_the_pattern_are_skipped() -> None:
    tokens, state = run(split_by_lane(2), constant(5, pattern=ONLY_SET), Instr(Op.HALT, pattern=ONLY_SET))
    assert tokens[:4] == ["<lane 0: 1>", "<lane 1: 1>", "<lane 2: 0>", "<lane 3: 0 last>"]
    assert tokens[4:] == ["<result 0x5>", "<last 0x5>", "<end>"]
    assert list(state.registers[:, 1]) == [5, 5, 0, 0]
    assert list(state.slots[0]) == [1, 1, 0, 0]
    assert set(state.slots[1]) == {-1}


def test_an_unchained_instruction_takes_one_more_token() -> None:
    tokens, state = run(split_by_lane(1), constant(5, pattern=ONLY_SET, unchained=True), HALT)
    assert tokens[4:] == ["<result 0x5>", "<step>", "<end>"]
    assert list(state.registers[:, 1]) == [5, 0, 0, 0]


def test_a_bit_never_written_or_cleared_matches_both_values() -> None:
    both = (constant(3, pattern=ONLY_SET), Instr(Op.HALT, pattern=ONLY_SET))
    assert run(*both)[0] == ["<result 0x3>"] * 3 + ["<last 0x3>", "<end>"]
    assert run(split_by_lane(1), Instr(Op.CLR), *both)[0][4:] == ["<step>"] + ["<result 0x3>"] * 3 + [
        "<last 0x3>",
        "<end>",
    ]


def test_branch_goes_to_the_target_only_if_a_lane_is_active() -> None:
    branch = Instr(Op.BR, target=3, skip=2, pattern=ONLY_CLEAR)
    assert run(split_by_lane(3), branch, HALT, HALT)[0][4] == "@3"
    assert run(split_by_lane(4), branch, HALT, HALT)[0][4] == "@2"


def test_uniform_branch() -> None:
    for cond, token in ((Cond.EQ, "@2"), (Cond.LT, "<step>"), (Cond.LT | Cond.EQ, "@2")):
        branch = Instr(Op.UBR, a=Reg(1, True), immediate=100, immediate_is_b=True, cond=cond, target=2)
        assert run(branch, HALT, HALT)[0][0] == token


def test_a_uniform_branch_that_is_not_taken_forgets_no_bits() -> None:
    """Its target has the number of a slot, which the instruction behind it must not take for a CLR's."""
    stay = Instr(Op.UBR, a=Reg(1, uniform=True), cond=Cond.EQ, target=SLOT_BASE)
    halt = Instr(Op.HALT, pattern=ONLY_SET)
    _, state = run(split_by_lane(2), stay, constant(5, pattern=ONLY_SET), halt)
    assert state.registers[:, 1].tolist() == [5, 5, 0, 0]


def test_stores_acknowledge_all_lanes_but_the_last() -> None:
    store = Instr(Op.ST, a=LANE_INDEX, b=Reg(1, uniform=True), scale=2, immediate=MEMORY_BASE + 4)
    tokens, state = run(store, HALT, threads=3)
    assert tokens == ["<ack>", "<ack>", "<step>", "<end>"]
    assert list(state.memory[:5]) == [0, 100, 100, 100, 0]


@pytest.mark.parametrize(
    ("scale", "offset", "trap"),
    [(2, 24, "<trap lane 2: out of bounds>"), (0, 0, "<trap lane 1: misaligned>"), (2, -4, None)],
)
def test_bad_addresses_trap_and_write_nothing(scale: int, offset: int, trap: str | None) -> None:
    store = Instr(Op.ST, a=LANE_INDEX, b=LANE_INDEX, scale=scale, immediate=MEMORY_BASE + offset)
    tokens, state = run(store, HALT, words=(7,) * 8)
    assert tokens[-2:] == [trap or "<trap lane 0: out of bounds>", "<end>"]
    assert list(state.memory[:8]) == {24: [7] * 6 + [0, 1], 0: [0] + [7] * 7, -4: [7] * 8}[offset]
    load = Instr(Op.LD, Reg(1, uniform=True), immediate=MEMORY_BASE + 32)
    assert run(load, HALT)[0] == ["<trap lane 0: out of bounds>", "<end>"]


def test_trap_names_the_first_active_lane() -> None:
    trap = Instr(Op.TRAP, immediate=2, pattern=ONLY_CLEAR)
    assert run(split_by_lane(2), trap)[0][4:] == ["<trap lane 2: unsupported>", "<end>"]


def test_snapshot_and_restore_repeat_the_same_tokens() -> None:
    code = (split_by_lane(2), constant(0x12345678, pattern=ONLY_SET, unchained=True), HALT)
    emulator = Emulator(TINY)
    emulator.prefill([emulator.vocabulary[t] for t in prompt(Program(code), {}, {}, [], 4)])
    for _ in range(5):
        emulator.step()
    snapshot, passes = emulator.snapshot(), emulator.passes
    first = [emulator.step() for _ in range(6)]
    emulator.restore(snapshot)
    assert emulator.passes == passes
    assert [emulator.step() for _ in range(6)] == first


@pytest.mark.parametrize(
    ("op", "a", "b", "want"),
    [
        (Op.SHL, 1, 31, 1 << 31),
        (Op.SHL, 1, 32, 0),
        (Op.SHRU, 0x80000000, 33, 0),
        (Op.SHRS, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFF),
        (Op.SX8, 0x180, 0, 0xFFFFFF80),
        (Op.SX16, 0x17FFF, 0, 0x7FFF),
        (Op.SUB, 1, 0, 0xFFFFFFFF),
        (Op.MAD, 0xFFFFFFFF, 0xFFFFFFFF, 1),
    ],
)
def test_arithmetic(op: Op, a: int, b: int, want: int) -> None:
    assert evaluate(op, a, b) == want


def test_comparisons_are_signed_only_when_asked() -> None:
    assert evaluate(Op.SET, 0xFFFFFFFF, 1, cond=Cond.LT) == 0
    assert evaluate(Op.SET, 0xFFFFFFFF, 1, cond=Cond.LT | Cond.SIGNED) == 1
    assert evaluate(Op.PICK, 0xFFFFFFFF, 1, cond=Cond.GT) == 0xFFFFFFFF
