"""Random PTX kernels that terminate, stay in bounds and have no races, so that every correct engine agrees.

A kernel works on eight 32-bit variables and four predicates a thread.  It reads an array `inp` anywhere, and
writes 12 words of `out` that are the thread's own: the first eight receive the variables when it returns.
Control flow is structured (if, else, short circuit, switch, loops with break and continue, early return)
and depends on the thread unless it is drawn to depend on the launch only.  What else a kernel may contain is
named by `also`: the elements of `FEATURES`, and `WAITS`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hypothesis import strategies as st

from programs import atomics, functions, spaces, waits, warps
from programs.sizes import CONSTANTS, INPUTS, OWN, PREDICATES, VARIABLES
from programs.writer import Writer

__all__ = ["FEATURES", "WAITS", "Case", "programs"]

FEATURES = {
    "integers": "the whole integer instruction set, 8 to 64 bits",
    "functions": "device functions that are called from several places",
    "spaces": "local, const and shared memory, generic addresses, barriers",
    "warps": "shuffles, votes, matches and reductions, also where lanes have parted",
    "barriers": "barriers that count threads or reduce predicates, and `spaces`",
    "atomics": "atomic operations on global and shared memory",
}
#: Not among `FEATURES`, as it takes many tokens: loops in which threads wait for each other.
WAITS = "waits"
#: Threads of a launch whose arrays and local memory fit the machine.
_MOST_THREADS = 128
#: Blocks of several warps; and of one warp whose lanes are a power of two, so that shuffles stay within it.
_WARPS = ((32, 1, 1), (64, 1, 1), (16, 2, 2), (48, 2, 1), (128, 1, 1), (4, 1, 1), (8, 1, 1), (4, 4, 1))


@dataclass(frozen=True)
class Case:
    """A PTX file with its launch in a comment; it fits a machine of as many lanes as its block has threads.

    written: the arrays whose content after the launch is determined.
    """

    text: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    written: tuple[str, ...] = ("out",)


@st.composite
def programs(
    draw: st.DrawFn, max_block: int = 4, max_grid: int = 2, size: int = 12, depth: int = 3,
    also: Collection[str] = (),
) -> Case:  # fmt: skip
    """Kernels of about `size` statements nested at most `depth` deep.

    Blocks have up to `max_block` threads, grids up to `max_grid` blocks.  Small ones without `also` fit a
    machine of 4 lanes and 128 words.
    """
    if "barriers" in also:
        also = {*also, "spaces"}
    block = draw(_blocks(max_block, not {"warps", "barriers"}.isdisjoint(also)))
    threads = block[0] * block[1] * block[2]
    most = max_grid if threads * max_grid <= _MOST_THREADS else 1
    grid = draw(st.sampled_from([(1, 1, 1), (most, 1, 1), (1, most, 1)]))
    blocks = grid[0] * grid[1]
    writer = Writer(draw, size, threads, frozenset(also))
    callees = functions.declared(draw) if "functions" in also else []
    writer.functions = [function.name for function in callees]
    writer.statements(depth, top=True)
    word = st.one_of(st.sampled_from(CONSTANTS), st.integers(0, 0xFFFFFFFF))
    inputs = draw(st.lists(word, min_size=INPUTS, max_size=INPUTS))
    modules = {"spaces": spaces, "warps": warps, "atomics": atomics, WAITS: waits}
    parts = [module for name, module in modules.items() if name in also]
    arrays = f"inp = u32{inputs}, out = u32[{threads * blocks * OWN}], n = {draw(st.integers(0, 5))}"
    text = "\n".join([
        f"// qdbg: launch k<<<{grid}, {block}>>>({arrays})",
        ".version 8.0\n.target sm_80\n.address_size 64",
        *(part.MODULE for part in parts),
        *(function.text for function in callees),
        _HEAD,
        *(part.HEAD.format(threads=threads) for part in parts),
        *writer.lines,
        _TAIL,
    ])  # fmt: skip
    written = ("out", *["totals"] * ("atomics" in also), *["marks", "kept"] * (WAITS in also))
    return Case(text, block, grid, written)


def _blocks(most: int, warps: bool) -> st.SearchStrategy[tuple[int, int, int]]:
    """The shapes of blocks of up to `most` threads."""
    if warps:
        return st.sampled_from([b for b in _WARPS if b[0] * b[1] * b[2] <= most])
    return st.integers(1, most).flatmap(
        lambda width: st.sampled_from(
            [(width, 1, 1)] + [(width // 2, 2, 1), (1, width // 2, 2)] * (width % 2 == 0)
        )
    )


_HEAD = f""".visible .entry k(.param .u64 inp, .param .u64 out, .param .u32 n)
{{
.reg .pred %p<{PREDICATES + 1}>; .reg .pred %q<64>; .reg .pred %s<4>;
.reg .b16 %h<4>; .reg .b32 %v<{VARIABLES}>; .reg .b32 %r<20>; .reg .b32 %c<64>; .reg .b64 %d<12>;
ld.param.u64 %d0, [inp]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [n];
cvta.to.global.u64 %d0, %d0;
mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ntid.y;
mad.lo.u32 %r6, %r4, %r5, %r3; mad.lo.u32 %r6, %r6, %r1, %r2;
mov.u32 %r7, %ntid.z; mul.lo.u32 %r7, %r7, %r5; mul.lo.u32 %r7, %r7, %r1;
mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ctaid.y; add.u32 %r8, %r8, %r9;
mad.lo.u32 %r9, %r8, %r7, %r6;
mul.wide.u32 %d2, %r9, {4 * OWN}; add.s64 %d2, %d1, %d2;
mov.u32 %v0, %r6; mov.u32 %v1, %r9; mov.u32 %v2, 0; mov.u32 %v3, 1; mov.u32 %v4, %r0; mov.u32 %v5, %r8;
cvt.u16.u32 %h0, %r6; cvt.u16.u32 %h1, %r9; cvt.u16.u32 %h2, %r0;
mov.u32 %v6, 0; mov.u32 %v7, -3; mov.u64 %d3, 5; mov.u64 %d4, -1;
setp.eq.u32 %p0, %r6, 0; setp.lt.u32 %p1, %r6, 2; setp.ne.u32 %p2, %r0, 0; setp.eq.u32 %p3, 0, 0;"""
_TAIL = (
    "$DONE:\n" + "\n".join(f"st.global.u32 [%d2+{4 * i}], %v{i};" for i in range(VARIABLES)) + "\nret;\n}\n"
)
