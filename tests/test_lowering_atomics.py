"""Atomic operations on the emulator: old values in the order of the lanes, and what is left in memory.

Lanes of a warp have one order, so a Python loop over the threads says what must come out (PTX ISA 9.7.13).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from lowered import emulate, same_as_interpreter
from ptx_runner import kernel

RANDOM = np.random.default_rng(23)
SIZES = {"b16": 2, "u32": 4, "s32": 4, "b32": 4, "u64": 8, "s64": 8, "b64": 8}


def signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def ordered(choose: Callable[..., int], kind: str) -> Callable[[int, int], int]:
    bits = 8 * SIZES[kind]
    key = (lambda v: signed(v, bits)) if kind[0] == "s" else (lambda v: v)
    return lambda old, x: choose(old, x, key=key)


CASES: list[tuple[str, str, Callable[..., int]]] = [
    *[("add", t, lambda old, x: old + x) for t in ("u32", "s32", "u64")],
    *[("min", t, ordered(min, t)) for t in ("u32", "s32", "u64", "s64")],
    *[("max", t, ordered(max, t)) for t in ("u32", "s32", "u64", "s64")],
    *[("and", t, lambda old, x: old & x) for t in ("b32", "b64")],
    *[("or", t, lambda old, x: old | x) for t in ("b32", "b64")],
    *[("xor", t, lambda old, x: old ^ x) for t in ("b32", "b64")],
    ("inc", "u32", lambda old, x: 0 if old >= x else old + 1),
    ("dec", "u32", lambda old, x: x if old == 0 or old > x else old - 1),
    *[("exch", t, lambda old, x: x) for t in ("b32", "b64")],
    *[("cas", t, lambda old, x, y: y if old == x else old) for t in ("b16", "b32", "b64")],
]
SPACES = ["global", "shared", "generic"]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("name", "kind", "update"), CASES)
def test_old_values_and_memory(name: str, kind: str, update: Callable[..., int], space: str) -> None:
    """Threads of a warp update four cells each, by turns of their number, in a block that has diverged."""
    threads, size = 24, SIZES[kind]
    bits = 8 * size
    operands = 2 if name == "cas" else 1
    small = name in ("cas", "inc", "dec")
    values = [
        [int(v) for v in RANDOM.integers(0, 3 if small else 1 << min(bits, 63), threads)]
        for _ in range(operands)
    ]
    if bits == 64 and not small:
        values = [[v * 2 + 1 & (1 << 64) - 1 for v in row] for row in values]
    cells = [int(v) for v in RANDOM.integers(0, 3 if small else 1 << min(bits, 63), 4)]
    element = f"u{bits}"
    register = {16: "%h", 32: "%r", 64: "%d"}[bits]
    first = 1 if bits == 16 else 10
    loads = "".join(
        f"ld.param.u64 %d4, [x{n}]; add.s64 %d4, %d4, %d2; ld.global.{element} {register}{first + n}, [%d4];"
        for n in range(operands)
    )
    listed = ", ".join(f"{register}{first + n}" for n in range(operands))
    base = "ld.param.u64 %d6, [cells];"
    to_shared = from_shared = ""

    def moved(source: str, at: str, target: str, to: str) -> str:
        return f"ld.{source}.{element} {register}9, [{at}]; st.{target}.{element} [{to}], {register}9;"

    if space != "global":
        base = "mov.u64 %d6, s;" + ("cvta.shared.u64 %d6, %d6;" if space == "generic" else "")
        for n in range(4):
            to_shared += moved("global", f"%d7+{n * size}", "shared", f"s+{n * size}")
            from_shared += moved("shared", f"s+{n * size}", "global", f"%d7+{n * size}")
    where = {"global": ".global", "shared": ".shared", "generic": ""}[space]
    body = f"""
        ld.param.u64 %d7, [cells]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, {size};
        setp.ne.u32 %p1, %r0, 0; @%p1 bra $READY; {to_shared}
    $READY: bar.sync 0; {base} {loads} and.b32 %r1, %r0, 3; mul.wide.u32 %d5, %r1, {size};
        add.s64 %d6, %d6, %d5;
        setp.eq.u32 %p2, %r0, 5; @%p2 bra $OUT;
        atom{where}.{name}.{kind} {register}8, [%d6], {listed};
        ld.param.u64 %d4, [old]; add.s64 %d4, %d4, %d2; st.global.{element} [%d4], {register}8;
        {f"red{where}.{name}.{kind} [%d6], {listed};" if name not in ("cas", "exch") else ""}
    $OUT: bar.sync 0; @%p1 bra $END; {from_shared}
    $END: ret;
    """
    arrays = [f"x{n} = {element}[{', '.join(map(str, row))}]" for n, row in enumerate(values)]
    arguments = "; ".join(
        [f"cells = {element}[{', '.join(map(str, cells))}]", f"old = {element}[{threads}]", *arrays]
    )
    result = emulate(
        kernel(body, arguments, block=str(threads), before=f".shared .align 8 .b8 s[{4 * size}];")
    )
    assert result.trap is None
    old = [0] * threads
    for again in range(1 if name in ("cas", "exch") else 2):
        for thread in range(threads):
            if thread == 5:
                continue
            cell = thread % 4
            if not again:
                old[thread] = cells[cell]
            cells[cell] = update(cells[cell], *(row[thread] for row in values)) % (1 << bits)
    assert result.array("old").tolist() == old
    assert result.array("cells").tolist() == cells


@pytest.mark.parametrize("address", ["%d1+2", "%d1+8"])
def test_a_64_bit_atomic_checks_all_of_its_address(address: str) -> None:
    body = f"ld.param.u64 %d1, [a]; atom.global.add.u64 %d2, [{address}], 1; ret;"
    trap = "misaligned" if address.endswith("2") else "out of bounds"
    assert emulate(kernel(body, "a = u64[1]")).trap == f"<trap lane 0: {trap}>"


def test_the_destination_may_be_an_operand() -> None:
    body = """ld.param.u64 %d1, [a]; mov.u32 %r0, %tid.x; add.u32 %r1, %r0, 3;
        atom.global.add.u32 %r1, [%d1], %r1; mul.wide.u32 %d2, %r0, 4; add.s64 %d2, %d1, %d2;
        st.global.u32 [%d2+4], %r1; ret;"""
    result = emulate(kernel(body, "a = u32[9]", block="8"))
    assert result.array("a").tolist() == [52, 0, 3, 7, 12, 18, 25, 33, 42]


def test_several_warps_count_together() -> None:
    body = """ld.param.u64 %d1, [a]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 7; mul.wide.u32 %d2, %r1, 4;
        add.s64 %d2, %d1, %d2; red.global.add.u32 [%d2], %r0; bar.sync 0;
        atom.global.inc.u32 %r2, [%d1+32], 99; ret;"""
    result = same_as_interpreter(kernel(body, "a = u32[9]", block="128"))
    want = [sum(thread for thread in range(128) if thread % 8 == cell) for cell in range(8)]
    assert result.array("a").tolist() == [*want, 28]
