"""Integers: where interpreters of PTX go wrong, by number of the checklist, a value or two of each.

The values are those of the PTX ISA or of NVIDIA's assembler, which folds constants; the tables of
`test_arithmetic_*.py` compare the same instructions with exact numbers on thousands of operands.
"""

from __future__ import annotations

import pytest
from arithmetic import instruction_type, value

from qdbg.runtime.interpreter import Unsupported

NAN, ONE, MINUS_ZERO = 0x7FFFFFFF, 0x3F800000, 0x80000000


@pytest.mark.parametrize(
    ("name", "a", "count", "expected"),
    [("shl.b32", 1, 31, 0x80000000), ("shl.b32", 1, 32, 0), ("shl.b32", 1, 33, 0), ("shl.b32", 1, 1 << 31, 0),
     ("shr.u32", 0xFFFFFFFF, 32, 0), ("shr.s32", 0x80000000, 32, 0xFFFFFFFF), ("shr.s16", 0x8000, 16, 0xFFFF),
     ("shl.b64", 1, 63, 1 << 63), ("shl.b64", 1, 64, 0), ("shr.s64", 1 << 63, 99, (1 << 64) - 1)],
)  # fmt: skip
def test_trap_01_shift_counts_are_clamped(name: str, a: int, count: int, expected: int) -> None:
    t = instruction_type(name)
    assert value(name, a, count, types=(t, "u32")) == expected


def test_trap_02_funnel_shifts() -> None:
    low, high = 0x11111111, 0x22222222
    assert value("shf.l.clamp.b32", low, high, 32) == low
    assert value("shf.l.clamp.b32", low, high, 99) == low
    assert value("shf.r.clamp.b32", low, high, 32) == high
    assert value("shf.l.wrap.b32", low, high, 32) == high
    assert value("shf.r.wrap.b32", low, high, 32) == low


def test_trap_03_bit_field_extract() -> None:
    assert value("bfe.s32", 0xDEADBEEF, 40, 8) == 0xFFFFFFFF
    assert value("bfe.s32", 0xDEADBEEF, 28, 8) == 0xFFFFFFFD
    assert value("bfe.u32", 0xDEADBEEF, 40, 8) == 0
    assert value("bfe.s32", 0xFFFFFFFF, 5, 0) == 0
    assert value("bfe.u32", 0xDEADBEEF, 0x108, 0x104) == 0xE  # eight bits of the counts


def test_trap_04_bit_field_insert() -> None:
    assert value("bfi.b32", 0xFF, 0x12345678, 8, 8) == 0x1234FF78
    assert value("bfi.b32", 0xFF, 0x12345678, 8, 0) == 0x12345678
    assert value("bfi.b32", 0xFF, 0x12345678, 32, 8) == 0x12345678
    assert value("bfi.b32", 0xFF, 0x12345678, 28, 8) == 0xF2345678
    assert value("bfi.b32", 0xFF, 0x12345678, 0x108, 8) == 0x1234FF78


def test_trap_05_bit_counts() -> None:
    assert [value("bfind.u32", x) for x in (0, 1, 0x80000000)] == [0xFFFFFFFF, 0, 31]
    assert [value("bfind.s32", x) for x in (0, 0xFFFFFFFF, 0x80000000)] == [0xFFFFFFFF, 0xFFFFFFFF, 30]
    assert [value("bfind.shiftamt.u32", x) for x in (0, 1)] == [0xFFFFFFFF, 31]
    assert value("bfind.u64", 1 << 40, result="u32") == 40
    assert value("clz.b32", 0) == 32
    assert value("clz.b64", 0, result="u32") == 64
    assert value("popc.b64", (1 << 64) - 1, result="u32") == 64


def test_trap_06_bit_masks() -> None:
    assert value("bmsk.clamp.b32", 32, 4) == 0
    assert value("bmsk.clamp.b32", 0, 32) == 0xFFFFFFFF
    assert value("bmsk.wrap.b32", 32, 4) == 0xF


def test_trap_07_prmt() -> None:
    a, b = 0x03020100, 0x07060504
    assert value("prmt.b32", 0x83828180, b, 0xBA98) == 0xFFFFFFFF  # the sign of each byte
    assert value("prmt.b32", a, b, 0xFFFF3210) == a  # 16 bits of the selector
    assert value("prmt.b32.f4e", a, b, 1) == 0x04030201
    assert value("prmt.b32.f4e", a, b, 5) == 0x04030201  # two bits of it
    assert value("prmt.b32.b4e", a, b, 0) == 0x05060700
    assert value("prmt.b32.rc8", a, b, 2) == 0x02020202
    assert value("prmt.b32.ecl", a, b, 1) == 0x03020101
    assert value("prmt.b32.ecr", a, b, 1) == 0x01010100
    assert value("prmt.b32.rc16", a, b, 1) == 0x03020302


def test_trap_08_lop3() -> None:
    a, b, c = 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA
    for table in (0x80, 0xFE, 0x96, 0x2A, 0xD8):
        found = value(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table}", a, b, c)
        assert found == table * 0x01010101  # with these operands the table is the result


def test_trap_09_products() -> None:
    assert value("mul.hi.s32", 0x80000000, 0x80000000) == 0x40000000
    assert value("mul.hi.u32", 0xFFFFFFFF, 0xFFFFFFFF) == 0xFFFFFFFE
    assert value("mul.hi.s64", (1 << 64) - 1, 1) == (1 << 64) - 1
    assert value("mul.wide.s32", 0xFFFFFFFF, 2, result="s64") == (1 << 64) - 2
    wide = ("u32", "u32", "u64")
    assert (
        value("mad.wide.u32", 0xFFFFFFFF, 0xFFFFFFFF, 1 << 63, types=wide, result="u64") == 0x7FFFFFFE00000001
    )
    assert value("mad.hi.s32", 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF) == 0xBFFFFFFE  # wraps
    assert value("mad.hi.sat.s32", 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF) == 0x7FFFFFFF


def test_trap_10_products_of_24_bits() -> None:
    assert value("mul24.hi.u32", 0xFFFFFF, 0xFFFFFF) == 0xFFFFFE00
    assert value("mul24.lo.s32", 0x00800000, 1) == 0xFF800000  # bit 23 is the sign
    assert value("mad24.lo.u32", 0x01000002, 3, 4) == 10


def test_trap_11_overflow() -> None:
    assert value("abs.s32", 0x80000000) == value("neg.s32", 0x80000000) == 0x80000000
    assert value("add.sat.s32", 0x7FFFFFFF, 1) == 0x7FFFFFFF
    assert value("sub.sat.s32", 0x80000000, 1) == 0x80000000
    with pytest.raises(Unsupported, match=r"add\.u32 takes"):
        value("add.sat.u32", 1, 1)


def test_trap_12_division_truncates() -> None:
    assert value("div.s32", 0xFFFFFFF9, 2) == 0xFFFFFFFD
    assert value("rem.s32", 0xFFFFFFF9, 2) == 0xFFFFFFFF
    assert value("rem.s32", 7, 0xFFFFFFFE) == 1


def test_trap_13_division_by_zero_and_overflow() -> None:
    for name in ("div.u32", "rem.u32", "div.s32", "rem.s32"):
        assert value(name, 7, 0) == 0xFFFFFFFF
    assert value("div.s32", 0x80000000, 0xFFFFFFFF) == 0x80000000
    assert value("rem.s32", 0x80000000, 0xFFFFFFFF) == 0


def test_trap_14_carry() -> None:
    ones = 0xFFFFFFFF
    assert value("add.cc.u32 %r15, {0}, {1}; addc.u32 {d}, 0, 0", ones, 1) == 1
    # The carry out of a sum that only the carry in made too large.
    chain = "add.cc.u32 %r15, {0}, {1}; addc.cc.u32 %r16, {0}, 0; addc.u32 {d}, 0, 0"
    assert value(chain, ones, 1) == 1
    # addc without .cc reads the flag and leaves it.
    assert value("add.cc.u32 %r15, {0}, {1}; addc.u32 %r16, 0, 0; addc.u32 {d}, 0, 0", ones, 1) == 1
    assert value("sub.cc.u32 %r15, {0}, {1}; subc.u32 {d}, 9, 5", 5, 5) == 4  # no borrow
    assert value("sub.cc.u32 %r15, {0}, {1}; subc.u32 {d}, 9, 5", 5, 6) == 3
    assert value("mad.lo.cc.u32 %r15, {0}, {0}, {0}; madc.hi.u32 {d}, {0}, {0}, 0", ones) == ones


def test_trap_15_sad() -> None:
    assert value("sad.s32", 0x80000000, 0x7FFFFFFF, 0) == 0xFFFFFFFF
    assert value("sad.u32", 0, 0xFFFFFFFF, 1) == 0


def test_trap_16_dot_products() -> None:
    assert value("dp4a.u32.u32", 0xFFFFFFFF, 0x02020202, 5) == 0x7FD
    assert value("dp4a.s32.s32", 0xFFFFFFFF, 0x02020202, 5) == 0xFFFFFFFD
    assert value("dp4a.u32.s32", 0xFF000000, 0xFF000000, 0) == 0xFFFFFF01
    assert value("dp4a.s32.s32", 0x80808080, 0x80808080, 0x7FFFFFFF) == 0x8000FFFF
    assert value("dp2a.lo.s32.s32", 0xFFFF0002, 0xFF03, 0) == 7
    assert value("dp2a.hi.u32.u32", 0x10002, 0x04050000, 1) == 15


def test_trap_17_signed_extremes_and_cnot() -> None:
    assert value("min.s32", 0xFFFFFFFF, 1) == value("max.u32", 0xFFFFFFFF, 1) == 0xFFFFFFFF
    assert value("min.u32", 0xFFFFFFFF, 1) == value("max.s32", 0xFFFFFFFF, 1) == 1
    assert [value("cnot.b32", x) for x in (0, 1, 0x80000000)] == [1, 0, 0]


def test_trap_18_set() -> None:
    assert value("set.lt.u32.s32", 0xFFFFFFFF, 0) == 0xFFFFFFFF
    assert value("set.lt.f32.s32", 0xFFFFFFFF, 0) == ONE
    assert value("set.lt.u32.f32", NAN, 0, result="u32") == 0


def test_trap_19_slct_tests_for_at_least_zero() -> None:
    by_float = ("b32", "b32", "f32")
    assert value("slct.b32.f32", 1, 2, MINUS_ZERO, types=by_float, result="b32") == 1
    assert value("slct.b32.f32", 1, 2, NAN, types=by_float, result="b32") == 2
    assert value("slct.s32.s32", 1, 2, 0x80000000) == 2


def test_trap_20_selp_negates_its_predicate() -> None:
    text = "setp.eq.u32 %p1, {0}, {0}; selp.b32 {d}, 7, 9, !%p1"
    assert value(text, 5) == 9


def test_trap_21_conversions_extend_by_the_source() -> None:
    assert value("cvt.u32.s8 {d}, {0}", 0x80, types=("b16",), result="u32") == 0xFFFFFF80
    assert value("cvt.u64.s32 {d}, {0}", 0x80000000, types=("s32",), result="u64") == 0xFFFFFFFF80000000
    assert value("cvt.u8.u32 {d}, {0}", 0x1FF, types=("u32",), result="b16") == 0xFF
    assert value("cvt.s8.s32 {d}, {0}", 0x80, types=("s32",), result="b32") == 0xFFFFFF80


def test_trap_22_saturating_conversions() -> None:
    assert value("cvt.sat.u32.s32", 0xFFFFFFFF) == 0
    assert value("cvt.sat.s32.u32", 0xFFFFFFFF) == 0x7FFFFFFF
    assert value("cvt.sat.s8.s32 {d}, {0}", 200, types=("s32",), result="b16") == 0x7F
    assert value("cvt.s8.s16.sat {d}, {0}", 200, types=("s16",), result="b16") == 0x7F  # in any order
