"""Runs instructions on thousands of operands and compares them with a reference, in a table.

Every instruction is computed for all operands by its form, vectorised, and for the first of them by a whole
kernel, so that reading and writing registers is covered too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ptx_runner import apply, kernel, source
from reference import BINARIES, Binary, decode

from qdbg.compiler.ptx.ir import Instruction
from qdbg.runtime.interpreter import decode as _tables  # noqa: F401  (fills the table of forms)
from qdbg.runtime.interpreter.forms import DTYPES, find_form

RANDOM = 2048
#: Operands that go through a kernel as well; for those that only a kernel can compute, how many.
SAMPLE, CHAINED = 64, 2560
_FILES = {1: "%p", 8: "%h", 16: "%h", 32: "%r", 64: "%d"}
Patterns = NDArray[Any]


@dataclass(frozen=True)
class Row:
    """An instruction, `{d}` and `{0}`, `{1}`, ... standing for its operands, with what it must compute.

    `expected` gets the operands, integers by type and floats as patterns, and gives the result modulo its
    width.  `columns` replaces the operands.
    """

    instruction: str
    types: tuple[str, ...]
    result: str
    expected: Callable[..., int]
    columns: tuple[Patterns, ...] | None = None


def width(type_name: str) -> int:
    """The bits of a PTX type."""
    return 32 if type_name.endswith("x2") else int("".join(c for c in type_name if c.isdigit()))


def raw(type_name: str) -> str:
    """The bits type of the same width, whose registers hold a type."""
    return f"b{width(type_name)}"


def instruction_of(text: str) -> Instruction:
    """One instruction, parsed."""
    return source(kernel(f"{text};", "out = u32[1]")).ptx.kernels[0].body[0]


def corners(type_name: str) -> list[int]:
    """Patterns at which implementations go wrong."""
    bits = width(type_name)
    binary = BINARIES.get(type_name)
    if binary is None:
        top = 1 << bits
        middle = top // 2
        sizes = [0, 1, 2, 3, bits - 1, bits, bits + 1, 255, middle - 1, middle, middle + 1, top - 2, top - 1]
        return [size % top for size in sizes]
    one, unit, p = binary.bias << (binary.precision - 1), 1 << (binary.precision - 1), binary.precision
    infinity = binary.infinity
    half, step = infinity + unit // 2, (p - 1) * unit
    sizes = [0, 1, unit - 1, unit, unit + 1, one - 1, one, one + 1, one - step, one + step]
    sizes += [infinity - 1, infinity, half, infinity + 1, half + 5]
    return [*sizes, *(size | binary.sign for size in sizes)]


@cache
def operands(types: tuple[str, ...], seed: int = 0) -> tuple[Patterns, ...]:
    """Random operands, and behind them all combinations of corners (of three operands, of the main ones)."""
    rng = random.Random(f"{types}{seed}")
    rows = [_row(types, rng) for _ in range(RANDOM)]
    lists = [corners(t) for t in types]
    if len(types) > 2:
        lists = [
            one if len(one) < 16 else [one[i] for i in (0, 1, 2, 3, 6, 10, 11, 12, 15, 16, 21, 26)]
            for one in lists
        ]
        if len(types) > 3:
            lists = [one[::3] for one in lists]
    rows += itertools.product(*lists)
    return tuple(
        np.array(column, dtype=f"u{width(t) // 8}")
        for t, column in zip(types, zip(*rows, strict=True), strict=True)
    )


def _row(types: Sequence[str], rng: random.Random) -> tuple[int, ...]:
    row = [_one(t, rng) for t in types]
    binary = BINARIES.get(types[0])
    if binary is not None and len(set(types)) == 1 and len(row) > 1 and rng.random() < 0.3:
        # Operands that nearly cancel: the last one close to minus the others' product or to minus the first.
        near = binary.mul(row[0], row[1], "rn") if len(row) == 3 else row[0]
        row[-1] = ((near ^ binary.sign) + rng.randrange(-2, 3)) % (1 << binary.bits)
    return tuple(row)


def _one(type_name: str, rng: random.Random) -> int:
    bits, binary = width(type_name), BINARIES.get(type_name)
    if rng.random() < 0.2:
        return rng.choice(corners(type_name))
    if binary is None:
        return rng.getrandbits(bits) >> rng.randrange(bits)
    if rng.random() < 0.5:  # near 1, where sums cancel and products tie
        span = binary.precision + 2
        base = (binary.bias - 2) << (binary.precision - 1)
        return (base + rng.getrandbits(span)) | rng.getrandbits(1) << (bits - 1)
    return rng.getrandbits(bits)


def evaluate(row: Row, columns: tuple[Patterns, ...]) -> list[int]:
    """The results as patterns, by the form of the instruction."""
    names = [f"{_FILES[width(t)]}{place + 5}" for place, t in enumerate((*row.types, row.result))]
    form = find_form(instruction_of(row.instruction.format(*names[:-1], d=names[-1])))
    assert form is not None
    # A register holds what the kernel loads; a narrower source takes its low bits.
    sources = [c.astype(f"u{DTYPES[t].itemsize}").view(DTYPES[t])
               for c, t in zip(columns, form.sources, strict=True)]  # fmt: skip
    with np.errstate(all="ignore"):
        found = form.function(*sources)
    if found.dtype.kind == "i" and found.dtype.itemsize * 8 < width(row.result):
        found = found.astype(f"i{width(row.result) // 8}")
    size = found.dtype.itemsize
    return found.view(f"u{size}").tolist()  # type: ignore[no-any-return]


def by_kernel(row: Row, columns: tuple[Patterns, ...]) -> list[int]:
    """The results as patterns, by a kernel with a thread for each row."""
    found = apply(row.instruction, tuple(map(raw, row.types)), raw(row.result), *columns)
    return found.tolist()  # type: ignore[no-any-return]


def chained(row: Row) -> bool:
    """Whether only a kernel can compute it: several instructions, or an immediate operand."""
    return ";" in row.instruction or row.instruction.startswith("lop3")


def failures(row: Row) -> tuple[int, list[str]]:
    """How many operands were tried, and the operands, result and expectation of those that failed."""
    columns = row.columns or operands(row.types)
    if chained(row):
        columns = tuple(np.concatenate([c[-(CHAINED - RANDOM) :], c])[:CHAINED] for c in columns)
        found = [*zip(range(CHAINED), by_kernel(row, columns), strict=True)]
    else:
        found = [*enumerate(evaluate(row, columns))]
        found += enumerate(by_kernel(row, tuple(c[-SAMPLE:] for c in columns)), len(columns[0]) - SAMPLE)
    lists = [column.tolist() for column in columns]
    mask = (1 << width(row.result)) - 1
    wrong = []
    for place, actual in found:
        patterns = [column[place] for column in lists]
        values = [decode(x, t) if t[0] in "us" else x for x, t in zip(patterns, row.types, strict=True)]
        wanted = row.expected(*values) & mask
        if actual != wanted:
            wrong.append(f"{', '.join(f'{x:x}' for x in patterns)} -> {actual:x}, not {wanted:x}")
    return len(columns[0]), wrong


def check(rows: Iterable[Row]) -> None:
    """Prints a table of all rows, and fails where one does."""
    broken = []
    print(f"\n{'instruction':56}{'cases':>8}{'failures':>10}")
    for row in rows:
        cases, wrong = failures(row)
        name = row.instruction.split(" {")[0] if not chained(row) else row.instruction
        print(f"{name[:55]:56}{cases:8}{len(wrong):10}")
        assert cases >= 2000, name
        broken += [f"{name}: {case}" for case in wrong[:3]]
    assert not broken, "\n".join(broken)


def scalar(instruction: str, type_name: str, arity: int, expected: Callable[..., int]) -> Row:
    """A row whose operands and result are of one type."""
    sources = ", ".join(f"{{{i}}}" for i in range(arity))
    return Row(f"{instruction} {{d}}, {sources}", (type_name,) * arity, type_name, expected)


def packed(instruction: str, type_name: str, arity: int, expected: Callable[..., int]) -> Row:
    """A row on pairs of 16-bit floats: `expected` computes an element, the pairs are made of its operands."""
    element = type_name.removesuffix("x2")
    low, high = operands((element,) * arity, 1), operands((element,) * arity, 2)
    count = len(low[0])
    order = np.random.default_rng(3).permutation(count)
    columns = tuple(
        a.astype(np.uint32) | b[order].astype(np.uint32) << np.uint32(16)
        for a, b in zip(low, high, strict=True)
    )

    def both(*pairs: int) -> int:
        upper = expected(*(pair >> 16 for pair in pairs))
        return expected(*(pair & 0xFFFF for pair in pairs)) | upper << 16

    sources = ", ".join(f"{{{i}}}" for i in range(arity))
    return Row(f"{instruction} {{d}}, {sources}", (type_name,) * arity, type_name, both, columns)


def binary_of(type_name: str) -> Binary:
    """The format of a float type, that of the elements for a packed one."""
    return BINARIES[type_name.removesuffix("x2")]


def value(instruction: str, *operands: int, result: str = "", types: tuple[str, ...] = ()) -> int:
    """What an instruction computes, as a pattern.

    It is a name, whose operands and result are of its last type unless said otherwise, or several
    instructions with `{d}`, `{0}`, `{1}`, ... for result and operands.
    """
    last = instruction_type(instruction)
    types = types or (last,) * len(operands)
    if "{d}" not in instruction:
        instruction += " {d}, " + ", ".join(f"{{{i}}}" for i in range(len(operands)))
    columns = [np.array([x], f"u{width(t) // 8}") for t, x in zip(types, operands, strict=True)]
    found = apply(instruction, tuple(map(raw, types)), raw(result or last), *columns)
    return int(found[0])


def instruction_type(instruction: str) -> str:
    types = [m for m in instruction.split()[0].split(".") if m[-1:].isdigit() and m[0] in "usbf"]
    return types[-1] if types else "b32"
