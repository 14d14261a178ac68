"""atom and red of the reference interpreter: every operation and type, contention, faults, refusals."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from ptx_runner import run
from test_interpreter_control import ELEMENT

from qdbg.runtime.interpreter import Fault, Unsupported

#: Where `[cell]` is, a line to begin with and an address for each state space.
SPACES = {
    "global": ("ld.param.u64 %d5, [cell];", "[%d5]"),
    "shared": (".shared .align 8 .b8 tile[8]; ld.param.u64 %d5, [cell];", "[tile]"),
    "": (".shared .align 8 .b8 tile[8]; mov.u64 %d6, tile; cvta.shared.u64 %d5, %d6;", "[%d5]"),
}


def once(
    operation: str,
    type_name: str,
    bits: int,
    old: int,
    *operands: int,
    space: str = "global",
    qualifiers: str = "",
) -> tuple[int, int]:
    """What one atomic returns and leaves, as bit patterns."""
    register = {16: "%h", 32: "%r", 64: "%d"}[bits]
    start, place = SPACES[space]
    moves = "".join(f"mov.b{bits} {register}{7 + i}, {value:#x};" for i, value in enumerate(operands))
    names = ", ".join(f"{register}{7 + i}" for i in range(len(operands)))
    dot = f".{space}" if space else ""
    body = f"""{start} ld.param.u64 %d1, [out]; {moves} mov.b{bits} {register}4, {old:#x};
        st{dot}.b{bits} {place}, {register}4;
        atom{qualifiers}{dot}.{operation}.{type_name} {register}3, {place}, {names};
        st.global.b{bits} [%d1], {register}3; ld{dot}.b{bits} {register}3, {place};
        st.global.b{bits} [%d1+{bits // 8}], {register}3; ret;"""
    machine = run(body, f"out = u{bits}[2]; cell = u{bits}[2]")
    returned, left = machine.array("out").tolist()
    return returned, left


def signed(bits: int, value: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


M32, M64 = (1 << 32) - 1, (1 << 64) - 1
MIN32, MIN64 = 1 << 31, 1 << 63
CORNERS = {32: [0, 1, 2, 0x7FFFFFFF, MIN32, M32], 64: [0, 1, 2, MIN64 - 1, MIN64, M64, 1 << 32]}

#: By the text of the ISA, on unbounded integers.
INTEGER: list[tuple[str, str, int, Callable[[int, int], int]]] = [
    ("add", "u32", 32, lambda old, b: old + b),
    ("add", "s32", 32, lambda old, b: old + b),
    ("add", "u64", 64, lambda old, b: old + b),
    ("inc", "u32", 32, lambda old, b: 0 if old >= b else old + 1),
    ("dec", "u32", 32, lambda old, b: b if old == 0 or old > b else old - 1),
    ("min", "u32", 32, min),
    ("max", "u32", 32, max),
    ("min", "u64", 64, min),
    ("max", "u64", 64, max),
    ("min", "s32", 32, lambda old, b: min(signed(32, old), signed(32, b))),
    ("max", "s32", 32, lambda old, b: max(signed(32, old), signed(32, b))),
    ("min", "s64", 64, lambda old, b: min(signed(64, old), signed(64, b))),
    ("max", "s64", 64, lambda old, b: max(signed(64, old), signed(64, b))),
    ("and", "b32", 32, lambda old, b: old & b),
    ("or", "b32", 32, lambda old, b: old | b),
    ("xor", "b32", 32, lambda old, b: old ^ b),
    ("and", "b64", 64, lambda old, b: old & b),
    ("or", "b64", 64, lambda old, b: old | b),
    ("xor", "b64", 64, lambda old, b: old ^ b),
    ("exch", "b32", 32, lambda old, b: b),
    ("exch", "b64", 64, lambda old, b: b),
]


@pytest.mark.parametrize(("operation", "type_name", "bits", "new"), INTEGER)
def test_trap_46_integer_operations(
    operation: str, type_name: str, bits: int, new: Callable[[int, int], int]
) -> None:
    """Every pair of corners at once: thread i works on its own cell; the old value comes back."""
    pairs = [(old, b) for old in CORNERS[bits] for b in CORNERS[bits]]
    register, size = ("%r", 4) if bits == 32 else ("%d", 8)
    body = f"""mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, {size}; ld.param.u64 %d1, [out];
        ld.param.u64 %d2, [cell]; ld.param.u64 %d4, [b]; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
        add.s64 %d4, %d4, %d3; ld.global.b{bits} {register}7, [%d4];
        atom.global.{operation}.{type_name} {register}8, [%d2], {register}7;
        st.global.b{bits} [%d1], {register}8; ret;"""
    old, operand = zip(*pairs, strict=True)
    arrays = f"cell = u{bits}{list(old)}; b = u{bits}{list(operand)}"
    machine = run(body, f"out = u{bits}[{len(pairs)}]; {arrays}", block=str(len(pairs)))
    mask = (1 << bits) - 1
    assert machine.array("out").tolist() == [old for old, _ in pairs]
    assert machine.array("cell").tolist() == [new(old, b) & mask for old, b in pairs]


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("space", SPACES)
def test_trap_46_compare_and_swap(bits: int, space: str) -> None:
    big = (1 << bits) - 2
    assert once("cas", f"b{bits}", bits, big, big, 7, space=space) == (big, 7)
    assert once("cas", f"b{bits}", bits, big, 1, 7, space=space) == (big, big)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("qualifiers", ["", ".relaxed.gpu", ".acq_rel.sys", ".acquire.cta", ".release.gpu"])
def test_qualifiers_and_spaces(space: str, qualifiers: str) -> None:
    assert once("add", "u32", 32, 5, 9, space=space, qualifiers=qualifiers) == (5, 14)


def f32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def f64(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


SUBNORMAL = 0x00400000  # 2**-127
NORMAL = 0x00800000  # 2**-126


@pytest.mark.parametrize(
    ("old", "operand", "flushed", "kept"),
    [
        (f32(1.5), f32(2.25), f32(3.75), f32(3.75)),
        (SUBNORMAL, SUBNORMAL, 0, NORMAL),  # subnormal operands
        (0x80400000, 0x80400000, 0x80000000, 0x80800000),  # the sign stays
        (0x80C00000, NORMAL, 0x80000000, 0x80400000),  # -1.5 * 2**-126 + 2**-126, a subnormal result
        (SUBNORMAL, f32(1.0), f32(1.0), f32(1.0)),
        (f32(1.0), f32(2.0**-24), f32(1.0), f32(1.0)),  # a tie to even
        (f32(1.0) + 1, f32(2.0**-24), f32(1.0) + 2, f32(1.0) + 2),
        (0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x7FFFFFFF),
        (0x7F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7F800000),
    ],
)
def test_trap_46_f32_flushes_in_global_memory_only(old: int, operand: int, flushed: int, kept: int) -> None:
    assert once("add", "f32", 32, old, operand) == (old, flushed)
    assert once("add", "f32", 32, old, operand, space="shared") == (old, kept)
    assert once("add", "f32", 32, old, operand, space="") == (old, kept), "a generic address of shared memory"


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("old", "operand", "expected"),
    [(f64(0.1), f64(0.2), f64(0.30000000000000004)), (1, 1, 2), (f64(-1.5), f64(1.5), 0)],
)
def test_trap_46_f64_add_keeps_subnormals(space: str, old: int, operand: int, expected: int) -> None:
    assert once("add", "f64", 64, old, operand, space=space) == (old, expected)


def half(bits: int, fraction_bits: int, exponent_bits: int) -> Fraction:
    """The exact value of a finite 16-bit float."""
    fraction, exponent = bits & (1 << fraction_bits) - 1, bits >> fraction_bits & (1 << exponent_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    scale = max(exponent, 1) - bias - fraction_bits
    value = Fraction(fraction + (exponent > 0) * (1 << fraction_bits)) * Fraction(2) ** scale
    return -value if bits >> 15 else value


@pytest.mark.parametrize(("type_name", "fraction_bits", "exponent_bits"), [("f16", 10, 5), ("bf16", 7, 8)])
def test_trap_46_half_precision_rounds_once(type_name: str, fraction_bits: int, exponent_bits: int) -> None:
    """Random pairs and halves of pairs: the result is the nearest float to the exact sum, ties to even."""
    rng = np.random.default_rng(7)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    operands = rng.integers(0, 1 << 16, (2, 1024)).astype(np.uint16)
    operands[:, :256] &= 0x83FF  # subnormal and small
    operands[1, 256:512] = operands[0, 256:512] ^ rng.integers(0, 1 << 12, 256).astype(np.uint16)
    packed = operands.view(np.uint32)
    body = f"""{ELEMENT} ld.param.u64 %d4, [b]; add.s64 %d4, %d4, %d3; ld.global.b32 %r7, [%d4];
        red.global.add.noftz.{type_name}x2 [%d2], %r7; ret;"""
    count = packed.shape[1]
    arrays = [
        f"{n} = u32[{', '.join(map(str, row.tolist()))}]" for n, row in zip(("out", "b"), packed, strict=True)
    ]
    machine = run(body, "; ".join(arrays), block=str(count))
    got = machine.array("out").copy().view(np.uint16)
    values = np.array([float(half(b, fraction_bits, exponent_bits)) for b in range(infinity)])
    checked = 0
    for a, b, result in zip(*operands.tolist(), got.tolist(), strict=True):
        if a & 0x7FFF >= infinity or b & 0x7FFF >= infinity:
            continue
        exact = half(a, fraction_bits, exponent_bits) + half(b, fraction_bits, exponent_bits)
        place = int(np.searchsorted(values, float(abs(exact))))
        near = [n for n in range(max(place - 2, 0), place + 3) if n < infinity]
        best = min(near, key=lambda n: (abs(half(n, fraction_bits, exponent_bits) - abs(exact)), n & 1))
        top = half(infinity - 1, fraction_bits, exponent_bits)
        ulp = top - half(infinity - 2, fraction_bits, exponent_bits)
        best = infinity if abs(exact) >= top + ulp / 2 else best
        sign = (exact < 0) or (exact == 0 and a >> 15 and b >> 15)
        assert result == best | bool(sign) << 15, (hex(a), hex(b))
        checked += 1
    assert checked > 900


def test_half_precision_returns_the_old_value_and_canonical_nan() -> None:
    assert once("add", "noftz.f16", 16, 0x3C00, 0x3C00) == (0x3C00, 0x4000)
    assert once("add", "noftz.bf16", 16, 0x3F80, 0x3F80, space="shared") == (0x3F80, 0x4000)
    assert once("add", "noftz.f16", 16, 0x7C00, 0xFC00) == (0x7C00, 0x7FFF)
    assert once("add", "noftz.bf16", 16, 0x7F80, 0xFF80) == (0x7F80, 0x7FFF)


@pytest.mark.parametrize("space", ["global", "shared"])
def test_lanes_take_turns_in_lane_order(space: str) -> None:
    """A ticket counter: lane n gets n; two counters: each counts its own lanes."""
    start, place = SPACES[space]
    body = f"{start} {ELEMENT} mov.u32 %r9, 0; st.{space}.u32 {place}, %r9; bar.sync 0; "
    ticket = run(body + f"atom.{space}.add.u32 %r1, {place}, 1; st.global.u32 [%d2], %r1; ret;",
                 "out = u32[32]; cell = u32[1]", block="32")  # fmt: skip
    assert ticket.array("out").tolist() == list(range(32))
    exchanged = run(body + f"atom.{space}.exch.b32 %r1, {place}, %r0; st.global.u32 [%d2], %r1; ret;",
                    "out = u32[32]; cell = u32[1]", block="32")  # fmt: skip
    assert exchanged.array("out").tolist() == [0, *range(31)]


def test_contention_between_some_lanes() -> None:
    body = f"""{ELEMENT} ld.param.u64 %d5, [cell]; and.b32 %r4, %r0, 3; mul.wide.u32 %d6, %r4, 4;
        add.s64 %d5, %d5, %d6; atom.global.add.u32 %r1, [%d5], %r0; st.global.u32 [%d2], %r1; ret;"""
    machine = run(body, "out = u32[64]; cell = u32[4]", block="64")
    sums, returned = [0] * 4, []
    for t in range(64):
        returned.append(sums[t % 4])
        sums[t % 4] += t
    assert machine.array("out").tolist() == returned
    assert machine.array("cell").tolist() == sums


def test_red_of_each_operation_and_a_guard() -> None:
    body = f"""{ELEMENT} setp.ne.u32 %p1, %r0, 5;
        red.global.max.s32 [%d1], %r0; @%p1 red.global.add.u32 [%d1+4], 1;
        red.global.or.b32 [%d1+8], %r0; red.relaxed.gpu.global.inc.u32 [%d1+12], 4;
        red.global.add.f32 [%d1+16], 0f3f000000; ret;"""
    assert run(body, "out = u32[5]", block="8").array("out").tolist() == [7, 7, 7, 8 % 5, f32(4.0)]


def test_result_may_be_thrown_away() -> None:
    assert run(f"{ELEMENT} atom.global.add.u32 _, [%d1], 3; ret;", "out = u32[1]").array("out").tolist() == [
        3
    ]


@pytest.mark.parametrize(
    ("access", "reason", "words"),
    [
        ("atom.global.add.u32 %r1, [%d1+16], 1", "out of bounds", "updates global address 0x1010"),
        ("red.global.add.u32 [%d1-4], 1", "out of bounds", "updates global address"),
        ("atom.global.add.u32 %r1, [%d1+2], 1", "misaligned", "not a multiple of the 4 bytes"),
        ("atom.global.exch.b64 %d4, [%d1+4], %d3", "misaligned", "not a multiple of the 8 bytes"),
        ("atom.shared.add.u32 %r1, [0], 1", "out of bounds", "outside the shared memory"),
    ],
)
def test_faults_name_block_thread_and_line(access: str, reason: str, words: str) -> None:
    body = f"{ELEMENT} setp.eq.u32 %p1, %r0, 1;\n@%p1 {access};\nret;"
    with pytest.raises(Fault, match=words) as caught:
        run(body, "out = u32[4]", block="4")
    fault = caught.value
    assert (fault.reason, fault.block, fault.thread) == (reason, (0, 0, 0), (1, 0, 0))
    assert str(fault).startswith(f"test.ptx:{fault.line}: thread (1, 0, 0) of block (0, 0, 0) updates")


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (
            "atom.global.add.s64 %d1, [%d1], %d2",
            "does .add on .s64, which PTX does not have; it has .u32, .s32, .u64",
        ),
        ("atom.global.min.f32 %f1, [%d1], %f2", "does .min on .f32"),
        ("atom.global.add.f16 %h1, [%d1], %h2", "adds .f16 without .noftz"),
        ("atom.global.v2.add.f32 {%f1, %f2}, [%d1], {%f1, %f2}", "has .v2, which is not supported yet"),
        ("atom.global.cas.b128 %d1, [%d1], %d2, %d3", "does .cas on .b128"),
        ("atom.global.cas.b32 %r1, [%d1], %r2", "takes 4 operands, not 3"),
        ("red.global.exch.b32 [%d1], %r2", "reduces with .exch, which only atom has"),
        ("red.global.add.u32 %r1, [%d1], %r2", "takes 2 operands, not 3"),
        ("atom.global.u32 %r1, [%d1], %r2", "names no atomic operation and type"),
        ("atom.local.add.u32 %r1, [%d1], %r2", "has .local, which is not supported yet"),
        (
            "atom.global.add.L2::cache_hint.u32 %r1, [%d1], %r2, %d2",
            "has .L2::cache_hint, which is not supported",
        ),
    ],
)
def test_what_is_not_ptx_is_said(instruction: str, why: str) -> None:
    with pytest.raises(Unsupported) as caught:
        run(f"{instruction}; ret;", "out = u32[1]")
    assert why in str(caught.value)
