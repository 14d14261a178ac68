"""Many instructions on many operands in one launch: a thread for each row, a store for each instruction."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lowered import Result, emulate

M16, M32, M64 = ((1 << bits) - 1 for bits in (16, 32, 64))
#: Instructions in one launch.
_CHUNK = 6
_FILES = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}

Row = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """An instruction: `{0}`, `{1}`, `{2}` stand for its operands, `{d}` for the result, types as in PTX.

    expected: the result, an integer of any size, from the operands as their types read them.
    """

    text: str
    types: tuple[str, ...]
    result: str
    expected: Callable[..., int]


def signed(value: int, bits: int) -> int:
    """The low bits of an integer as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def read(value: int, type_name: str) -> int:
    """An operand as its type reads the low bits of `value`."""
    bits = _bits(type_name)
    return signed(value, bits) if type_name.startswith("s") else value & (1 << bits) - 1


def corners(bits: int) -> list[int]:
    """The values at which integer circuits go wrong."""
    top = 1 << bits
    return [
        0,
        1,
        2,
        3,
        7,
        top >> 1,
        (top >> 1) - 1,
        (top >> 1) + 1,
        top - 1,
        top - 2,
        0xFFFF & (top - 1),
        top // 3,
    ]


def rows(bits: int, count: int, seed: int = 1) -> list[Row]:
    """Rows of operands: pairs of corners, and random ones of random sizes; the third one is often small."""
    draw = random.Random(seed)
    special = corners(bits)

    def value() -> int:
        if draw.random() < 0.5:
            return draw.choice(special)
        return draw.getrandbits(draw.randint(1, bits))

    small = (0, 1, 5, 8, 15, 16, 31, 32, 33, 40, 63, 64, 65, 255, 256)
    return [(value(), value(), draw.choice(small) if draw.random() < 0.5 else value()) for _ in range(count)]


def check(cases: Iterable[Case], operands: list[Row], *, guard: str = "") -> None:
    """Run each case on each row of operands, and compare with what it expects."""
    cases = list(cases)
    for start in range(0, len(cases), _CHUNK):
        chunk = cases[start : start + _CHUNK]
        result = emulate(program(chunk, operands, guard), limit=2_000_000)
        assert result.trap is None, (result.trap, chunk)
        found = result.array("out").reshape(len(chunk), len(operands))
        for case, got in zip(chunk, found, strict=True):
            for row, value in zip(operands, got, strict=True):
                seen = [read(v, t) for v, t in zip(row, case.types, strict=False)]
                want = case.expected(*seen) & (1 << _bits(case.result)) - 1
                assert int(value) == want, (
                    f"{case.text} on {[hex(v) for v in row]}: {int(value):#x}, not {want:#x}"
                )


def program(cases: list[Case], operands: list[Row], guard: str = "") -> str:
    """PTX of the batch; `out` is u64 [case, row]."""
    count = len(operands)
    lists = [", ".join(str(row[k]) for row in operands) for k in range(3)]
    arrays = ", ".join(f"x{k} = u64[{values}]" for k, values in enumerate(lists))
    lines = ["mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 8; setp.lt.u32 %p1, %r1, 1000;"]
    for k in range(3):
        lines.append(f"ld.param.u64 %d2, [x{k}]; add.s64 %d2, %d2, %d1; ld.global.u64 %d{10 + k}, [%d2];")
        lines.append(f"cvt.u32.u64 %r{10 + k}, %d{10 + k}; cvt.u16.u64 %h{10 + k}, %d{10 + k};")
    lines.append("ld.param.u64 %d2, [out]; add.s64 %d1, %d2, %d1;")
    for number, case in enumerate(cases):
        names = [f"{_FILES[_bits(t)]}{10 + k}" for k, t in enumerate(case.types)]
        bits = _bits(case.result)
        target = f"{_FILES[bits]}5"
        lines.append(guard + case.text.format(*names, d=target) + ";")
        if bits < 64:
            lines.append(f"cvt.u64.u{bits} %d5, {target};")
        lines.append(f"st.global.u64 [%d1+{8 * count * number}], %d5;")
    body = "\n".join(lines)
    parameters = ", ".join(f".param .u64 {name}" for name in ("x0", "x1", "x2", "out"))
    return f"""// qdbg: launch k<<<1, {count}>>>({arrays}, out = u64[{count * len(cases)}])
.version 8.0
.target sm_75
.address_size 64
.visible .entry k({parameters}) {{
.reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<20>;
{body}
ret;
}}
"""


def tokens(cases: list[Case], operands: list[Row]) -> Result:
    """The batch's run, for tests of what it costs."""
    return emulate(program(cases, operands), limit=2_000_000)


def _bits(type_name: str) -> int:
    return int(type_name.lstrip("usbf"))
