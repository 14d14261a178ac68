"""Floats: where interpreters of PTX go wrong, by number of the checklist, a value or two of each.

The values are those of the PTX ISA or of NVIDIA's assembler, which folds constants; the tables of
`test_arithmetic_*.py` compare the same instructions with exact numbers on thousands of operands.
"""

from __future__ import annotations

import pytest
from arithmetic import instruction_of, value
from ptx_runner import run

from qdbg.runtime.interpreter import Unsupported, error_bound

NAN, INFINITY, ONE = 0x7FFFFFFF, 0x7F800000, 0x3F800000
MINUS_ZERO, MINUS_INFINITY = 0x80000000, 0xFF800000


def holds(comparison: str, a: int, b: int) -> bool:
    """Whether a comparison of f32 holds, by setp."""
    text = f"setp.{comparison}.f32 %p1, {{0}}, {{1}}; selp.u32 {{d}}, 1, 0, %p1"
    return value(text, a, b, types=("f32", "f32"), result="u32") == 1


def test_trap_23_float_to_integer_clamps_and_nan() -> None:
    f32, f64 = ("f32",), ("f64",)
    assert value("cvt.rzi.s32.f32", 0x4F32D05E, types=f32, result="s32") == 0x7FFFFFFF  # 3e9
    assert value("cvt.rzi.u32.f32", 0xBFC00000, types=f32, result="u32") == 0  # -1.5
    assert value("cvt.rzi.s32.f32", NAN, types=f32, result="s32") == 0
    assert value("cvt.rzi.s64.f32", NAN, types=f32, result="s64") == 1 << 63
    assert value("cvt.rzi.u64.f32", NAN, types=f32, result="u64") == 1 << 63
    nan64 = 0x7FF8000000000000
    assert value("cvt.rzi.s32.f64", nan64, types=f64, result="s32") == 0x80000000
    assert value("cvt.rzi.u32.f64", nan64, types=f64, result="u32") == 0x80000000


def test_trap_24_rounding_to_integers() -> None:
    f32 = ("f32",)
    for number, expected in ((0x40200000, 2), (0x40600000, 4), (0xC0200000, 0xFFFFFFFE)):  # 2.5, 3.5, -2.5
        assert value("cvt.rni.s32.f32", number, types=f32, result="s32") == expected
    assert value("cvt.rpi.f32.f32", 0xBF000000) == MINUS_ZERO  # of -0.5
    assert value("cvt.rni.u16.f32", 0x477FFF80, types=f32, result="u16") == 0xFFFF  # 65535.5
    with pytest.raises(Unsupported, match=r"cvt\.s32\.f32 takes \.rni"):
        value("cvt.s32.f32", ONE, types=f32, result="s32")


@pytest.mark.parametrize(
    ("instruction", "operand", "expected"),
    [
        ("cvt.f32.f32", 0xFFC00001, 0xFFC00001),
        ("cvt.f32.f32", 0x7F800001, 0x7F800001),
        ("cvt.ftz.f32.f32", 0xFFC00001, 0x7FFFFFFF),
        ("cvt.f64.f64", 0x7FF0000000000001, 0x7FF0000000000001),
        ("cvt.f64.f32", 0xFFC00001, 0xFFF8000020000000),
        ("cvt.ftz.f64.f32", 0xFFC00001, 0x7FFFFFFFE0000000),
        ("cvt.ftz.f64.f32", 0x7F800001, 0x7FFFFFFFE0000000),
        ("neg.ftz.f32", 0x7F800001, 0xFFC00001),
        ("abs.ftz.f32", 0xFF800001, 0x7FC00001),
    ],
)
def test_trap_30_what_ptxas_makes_of_nans(instruction: str, operand: int, expected: int) -> None:
    """The values that ptxas 13.0 folds these to for sm_75."""
    to, *source = instruction.split(".")[-2:] if instruction.startswith("cvt") else ("f32", "f32")
    assert value(instruction, operand, types=(source[0],), result=to) == expected


def test_trap_25_integer_to_float_rounds_once() -> None:
    from_u32, from_u64 = ("u32",), ("u64",)
    assert value("cvt.rn.f32.u32", 0x01000001, types=from_u32, result="f32") == 0x4B800000
    assert value("cvt.rp.f32.u32", 0x01000001, types=from_u32, result="f32") == 0x4B800001
    assert value("cvt.rz.f32.u32", 0x7FFFFFFF, types=from_u32, result="f32") == 0x4EFFFFFF
    # Just above the middle between two f32, by less than a double has room for: 2^63 + 2^39 + 1.
    assert value("cvt.rn.f32.u64", (1 << 63) + (1 << 39) + 1, types=from_u64, result="f32") == 0x5F000001


def test_trap_26_saturation() -> None:
    minus_one, two = 0xBF800000, 0x40000000
    assert [value("add.sat.f32", x, 0) for x in (NAN, minus_one, two)] == [0, 0, ONE]
    assert value("mul.sat.f32", MINUS_ZERO, ONE) == 0
    assert value("cvt.sat.f32.f32", MINUS_ZERO) == 0


def test_trap_27_ordered_and_unordered_comparisons() -> None:
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "num"):
        assert not holds(name, NAN, ONE)
    for name in ("equ", "neu", "ltu", "leu", "gtu", "geu", "nan"):
        assert holds(name, NAN, ONE)
    assert holds("eq", 0, MINUS_ZERO)
    assert holds("num", ONE, ONE)


def test_trap_28_both_predicates_of_setp() -> None:
    text = "setp.ne.u32 %p3, {1}, 0; setp.eq.and.u32 %p1|%p2, {0}, {0}, %p3; selp.u32 {d}, 1, 0, %p2"
    assert value(text, 5, 0) == 0  # p is false, and q too
    assert value(text.replace(", %p3;", ", !%p3;").replace("0, %p2", "0, %p1"), 5, 0) == 1
    assert value("setp.lo.u32 %p1, {0}, {1}; selp.u32 {d}, 1, 0, %p1", 1, 0xFFFFFFFF) == 1


def test_trap_29_extremes_of_floats() -> None:
    assert value("min.f32", NAN, ONE) == value("max.f32", ONE, NAN) == ONE
    assert value("min.f32", 0x7FC00001, 0xFFC00002) == NAN
    assert value("min.f32", 0, MINUS_ZERO) == MINUS_ZERO
    assert value("max.f32", MINUS_ZERO, 0) == 0
    assert value("min.NaN.f32", ONE, 0x7FC00001) == NAN


def test_trap_30_canonical_nan() -> None:
    quiet = 0x7FC00001
    assert value("sub.f32", INFINITY, INFINITY) == NAN
    assert value("mul.f32", 0, INFINITY) == NAN
    assert value("add.f32", 0xFFC00001, ONE) == NAN
    assert value("sqrt.rn.f32", 0xBF800000) == value("div.rn.f32", 0, 0) == NAN
    assert value("abs.f32", 0xFFC00001) == quiet
    assert value("neg.f32", quiet) == 0xFFC00001
    assert value("mov.f32", 0xFFC00001) == 0xFFC00001
    text = "setp.eq.u32 %p1, 0, 0; selp.f32 {d}, {0}, {1}, %p1"
    assert value(text, 0xFFC00001, 0, types=("f32", "f32"), result="f32") == 0xFFC00001
    payload = 0x7FF0000000000123
    assert value("add.f64", payload, 0) == payload | 1 << 51
    assert value("fma.rn.f64", 0, 0, payload | 1 << 63) == payload | 1 << 63 | 1 << 51


def test_trap_31_flush_to_zero() -> None:
    half, smallest, normal = 0x3F000000, 1, 0x00800000
    assert value("add.ftz.f32", 0x80000001, MINUS_ZERO) == MINUS_ZERO
    assert value("mul.ftz.f32", normal, half) == 0
    assert value("mul.f32", normal, half) == 0x00400000
    assert value("neg.ftz.f32", smallest) == MINUS_ZERO
    assert value("abs.ftz.f32", 0x80000001) == 0
    assert value("min.ftz.f32", smallest, ONE) == 0
    assert value("cvt.ftz.f64.f32", smallest, types=("f32",), result="f64") == 0
    text = "setp.eq.ftz.f32 %p1, {0}, 0f00000000; selp.u32 {d}, 1, 0, %p1"
    assert value(text, smallest, types=("f32",), result="u32") == 1


def test_trap_32_directed_rounding() -> None:
    largest, minus_one = 0x7F7FFFFF, 0xBF800000
    assert value("add.rm.f32", ONE, minus_one) == MINUS_ZERO
    assert value("add.rz.f32", largest, largest) == value("add.rm.f32", largest, largest) == largest
    assert value("add.rp.f32", largest, largest) == INFINITY
    assert value("mul.rp.f32", 1, 0x3F000000) == 1


def test_trap_33_add_and_mul_are_not_contracted() -> None:
    """(1 + 2^-23)^2 - (1 + 2^-22) is 0 with the product rounded, 2^-46 without."""
    a, c = 0x3F800001, 0xBF800002
    assert (
        value("mul.f32 %f1, {0}, {0}; add.f32 {d}, %f1, {1}", a, c, types=("f32", "f32"), result="f32") == 0
    )
    assert value("fma.rn.f32", a, a, c) == 0x28800000


def test_trap_34_division() -> None:
    assert value("div.rn.f32", ONE, 0x40400000) == 0x3EAAAAAB
    assert value("rcp.rn.f32", 0x40400000) == 0x3EAAAAAB
    assert value("div.approx.f32", ONE, 0x7F000000) == 0  # |b| above 2^126
    assert value("div.approx.f32", 0xBF800000, 0x7F000000) == MINUS_ZERO
    assert value("div.approx.f32", INFINITY, 0x7F000000) == NAN
    assert value("div.approx.f32", ONE, 0x7E800000) == 0x00800000  # 2^126 itself
    assert value("div.full.f32", ONE, 0x7F000000) == 0x00400000


@pytest.mark.parametrize(
    ("name", "a", "expected"),
    [("ex2", MINUS_INFINITY, 0), ("ex2", 0, ONE), ("ex2", MINUS_ZERO, ONE), ("ex2", INFINITY, INFINITY),
     ("lg2", 0, MINUS_INFINITY), ("lg2", MINUS_ZERO, MINUS_INFINITY), ("lg2", 0xBF800000, NAN),
     ("lg2", INFINITY, INFINITY), ("rcp", MINUS_ZERO, MINUS_INFINITY), ("rcp", MINUS_INFINITY, MINUS_ZERO),
     ("rsqrt", MINUS_ZERO, MINUS_INFINITY), ("rsqrt", 0, INFINITY), ("rsqrt", INFINITY, 0),
     ("rsqrt", 0xBF800000, NAN), ("sqrt", MINUS_ZERO, MINUS_ZERO), ("sqrt", 0xBF800000, NAN),
     ("sin", MINUS_ZERO, MINUS_ZERO), ("sin", INFINITY, NAN), ("cos", 0, ONE), ("cos", MINUS_INFINITY, NAN),
     ("tanh", INFINITY, ONE), ("tanh", MINUS_INFINITY, 0xBF800000), ("tanh", MINUS_ZERO, MINUS_ZERO)],
)  # fmt: skip
def test_trap_35_corners_of_approximate_instructions(name: str, a: int, expected: int) -> None:
    assert value(f"{name}.approx.f32", a) == expected
    assert error_bound(instruction_of(f"{name}.approx.f32 %f1, %f2")) is not None
    assert value(f"{name}.approx.f32", 0x7FC00001) == NAN


def test_trap_35_a_subnormal_is_zero_with_ftz() -> None:
    assert value("rcp.approx.ftz.f32", 0x80000001) == MINUS_INFINITY


def test_trap_36_copysign_takes_the_sign_of_its_first_operand() -> None:
    assert value("copysign.f32", 0xBF800000, 0x40000000) == 0xC0000000
    assert value("copysign.f32", ONE, 0xC0000000) == 0x40000000


def test_trap_37_zeros_are_normal() -> None:
    def test(name: str, a: int) -> int:
        text = f"testp.{name}.f32 %p1, {{0}}; selp.u32 {{d}}, 1, 0, %p1"
        return value(text, a, types=("f32",), result="u32")

    assert test("normal", 0) == test("normal", MINUS_ZERO) == test("number", INFINITY) == 1
    assert test("subnormal", 0) == test("normal", INFINITY) == test("finite", INFINITY) == 0


def test_trap_38_signs_of_zero() -> None:
    assert value("sqrt.rn.f32", MINUS_ZERO) == MINUS_ZERO
    assert value("add.rn.f32", MINUS_ZERO, MINUS_ZERO) == MINUS_ZERO
    assert value("sub.rn.f32", ONE, ONE) == 0
    assert value("sub.rm.f32", ONE, ONE) == MINUS_ZERO


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [("mov.f32 %f1, 0f3F800001", 0x3F800001), ("mov.f32 %f1, 0fFFC00001", 0xFFC00001),
     ("add.f32 %f1, 0f00000000, 0.1", 0x3DCCCCCD), ("add.f32 %f1, 0f00000000, -1.5", 0xBFC00000),
     ("mov.b32 %f1, -1", 0xFFFFFFFF), ("mov.b32 %f1, 0xFFFFFFFF", 0xFFFFFFFF),
     ("cvt.rn.f32.f64 %f1, 0d3FF0000010000000", 0x3F800000)],
)  # fmt: skip
def test_trap_39_immediates(instruction: str, expected: int) -> None:
    machine = run(f"{instruction}; ld.param.u64 %d9, [out]; st.global.f32 [%d9], %f1; ret;", "out = u32[1]")
    assert machine.array("out").tolist() == [expected]


def test_trap_39_wide_immediates() -> None:
    assert value("mov.f64 {d}, 0d3FF0000000000001; mov.b64 %d15, {0}", 0, result="f64", types=("b64",)) == (
        0x3FF0000000000001
    )
    assert value("add.f64 {d}, {0}, 0.1", 0, result="f64", types=("f64",)) == 0x3FB999999999999A
    assert value("add.s64 {d}, {0}, -1", 0, result="s64", types=("s64",)) == (1 << 64) - 1
