"""The emitted model against the simulator: every dimension of the residual stream at every pass."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import prompt_of
from machines import SMALL

from qdbg.compiler.hardware.simulate import Simulator
from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.state import MachineState
from qdbg.runtime.stock import StockEngine

pytestmark = pytest.mark.stock

#: Loads, stores, divergence with different trip counts, wrap-around, and a trap at the end.
KERNEL = """// qdbg: launch k<<<1, 5>>>(inp = i32[7, -8, 100000, 2147483647, 3], n = 3)
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 inp, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<4>;
ld.param.u64 %d0, [inp]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d1, %r1, 4; add.s64 %d2, %d0, %d1; ld.global.u32 %r2, [%d2];
mov.u32 %r3, 0; setp.ge.u32 %p0, %r1, %r0; @%p0 bra $OUT;
$LOOP:
mad.lo.s32 %r2, %r2, %r2, %r1; shr.s32 %r4, %r2, %r3; xor.b32 %r2, %r2, %r4;
add.s32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r1; @%p1 bra $LOOP;
$OUT:
st.global.u32 [%d2], %r2; ld.global.u32 %r5, [%d2+4]; st.global.u32 [%d2], %r5;
ret;
}
"""


def same(one: MachineState, other: MachineState) -> None:
    """Two decoded states are equal in everything."""
    assert one.pc == other.pc
    for name in ("exists", "registers", "uniforms", "slots", "memory", "allocated"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_model_equals_simulator_and_emulator(small_checkpoint, dtype) -> None:  # type: ignore[no-untyped-def]
    """Tokens, every live residual dimension, and the decoded state, at every pass.

    In one-token decoding all of them are equal to the last bit, in both types.
    """
    built = machine(SMALL)
    layout, vocabulary = built.schedule, built.vocabulary
    simulator, emulator = Simulator(built.netlist, layout), Emulator(SMALL)
    engine = StockEngine(small_checkpoint, dtype)
    stream: dict[int, np.ndarray] = {}
    for index, layer in enumerate(engine.model.model.layers):
        layer.post_attention_layernorm.register_forward_pre_hook(
            lambda _, inputs, time=2 * index: stream.update({time: inputs[0][0, -1].float().numpy()})
        )
        layer.register_forward_hook(
            lambda _, inputs, output, time=2 * index + 1: stream.update({time: output[0, -1].float().numpy()})
        )

    def compare(time: int, values: np.ndarray) -> None:
        for signal, life in layout.lives.items():
            if life.start <= time < life.end:
                found = stream[time][life.dimension]
                assert found == values[0, signal.index], (signal.name, time, found)

    ids = [vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    for token in ids:
        simulator.step([token])
    tokens = [engine.prefill(ids)]
    assert tokens[0] == emulator.prefill(ids)
    while vocabulary.token(tokens[-1]).kind is not Kind.END:
        tokens.append(engine.step())
        assert tokens[-1] == emulator.step()
        simulator.settle(simulator.embedding[[tokens[-2]]], compare)
        same(engine.state(), emulator.state())
        assert (engine.margin() or 0) >= 2.0  # one bit of the payload
        assert len(tokens) < 500
    assert vocabulary.token(tokens[-2]).kind is Kind.TRAP  # the last lane reads past the array


def test_prefill_equals_one_by_one(stock_small: StockEngine) -> None:
    """The chunked rule of a prefill leaves the same state and the same next token."""
    built = machine(SMALL)
    ids = [built.vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    at_once = stock_small.prefill(ids)
    state = stock_small.state()
    stock_small.prefill(ids[:1])
    for token in ids[1:]:
        stock_small._forward([token])
    assert stock_small._token == at_once
    same(stock_small.state(), state)


def test_snapshot_and_restore(stock_small: StockEngine) -> None:
    ids = [machine(SMALL).vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    stock_small.prefill(ids)
    snapshot = stock_small.snapshot()
    before = stock_small.state()
    first = [stock_small.step() for _ in range(8)]
    stock_small.restore(snapshot)
    assert stock_small.passes == 1
    same(stock_small.state(), before)
    assert [stock_small.step() for _ in range(8)] == first
