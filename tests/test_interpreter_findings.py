"""Warnings of the reference interpreter: shared memory never written, and data races."""

from __future__ import annotations

from typing import Any

import pytest
from ptx_runner import kernel, source
from test_interpreter_control import ELEMENT

from qdbg.runtime.interpreter import Finding, Interpreter
from qdbg.runtime.launch import bind, launch_for

UNWRITTEN = "uninitialised shared memory"
TILE = ".shared .align 16 .b8 tile[256]; shl.b32 %r2, %r0, 2;"


def findings(
    body: str, arguments: str = "out = u32[64]", races: bool = True, **options: Any
) -> list[Finding]:
    """What a launch of `body` is warned of."""
    text = kernel(f"{ELEMENT} {TILE}\n{body}\nret;", arguments, **options)
    loaded = source(text)
    machine = Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)), races=races)
    machine.run(100_000)
    return list(machine.findings)


# -- shared memory never written


@pytest.mark.parametrize(
    "load",
    [
        "ld.shared.u32 %r1, [tile+16]",
        "ld.shared.u8 %r1, [tile+16]",
        "ld.shared.v4.u32 {%r1, %r3, %r4, %r5}, [tile]",
        "atom.shared.add.u32 %r1, [tile+16], 1",
        "red.shared.max.u32 [tile+16], 1",
        "cvta.shared.u64 %d4, 16; ld.u32 %r1, [%d4]",
    ],
)
def test_reading_what_nobody_wrote_is_a_warning_once_a_line(load: str) -> None:
    body = f"""setp.eq.u32 %p1, %r0, 40; mov.u32 %r6, 0; @%p1 bra never;
    top: {load};
        add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3; @%p2 bra top;
    never:"""
    found = [f for f in findings(body, races=False, block="(4, 16)") if f.kind != "divergent barrier"]
    (finding,) = found
    assert (finding.kind, finding.block, finding.thread) == (
        UNWRITTEN,
        (0, 0, 0),
        (0, 0, 0),
    )
    assert finding.message.startswith(
        f"test.ptx:{finding.line}: thread (0, 0, 0) of block (0, 0, 0) reads shared"
    )
    assert "which no thread of the block has written; write it first" in finding.message


def test_the_address_is_the_first_byte_that_is_missing() -> None:
    body = "st.shared.v2.u32 [tile], {%r0, %r0}; ld.shared.u64 %d4, [tile]; ld.shared.u64 %d4, [tile+8];"
    (finding,) = findings(body, races=False)
    assert "reads shared address 0x8," in finding.message


def test_what_any_thread_wrote_is_written() -> None:
    body = """st.shared.u32 [%r2], %r0; bar.sync 0; sub.u32 %r3, 252, %r2; ld.shared.u32 %r1, [%r3];
        cvta.shared.u64 %d4, 0; st.u8 [%d4], %r0; ld.shared.v4.u32 {%r1, %r3, %r4, %r5}, [tile];"""
    assert findings(body, races=False, block="64") == []


def test_a_block_does_not_inherit_what_the_one_before_wrote() -> None:
    body = """mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 0; @%p1 st.shared.u32 [tile], %r0;
        ld.shared.u32 %r1, [tile];"""
    (finding,) = findings(body, races=False, grid="2")
    assert finding.block == (1, 0, 0)


def test_restoring_forgets_what_was_written_since() -> None:
    text = kernel(
        f"{ELEMENT} {TILE} st.shared.u32 [tile], %r0; ld.shared.u32 %r1, [tile]; ret;", "out = u32[1]"
    )
    loaded = source(text)
    machine = Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)))
    start = machine.snapshot()
    machine.run()
    machine.restore(start)
    warp = machine.warps[0]
    load = next(i.index for i in loaded.ptx.kernels[0].body if i.name == "ld.shared.u32")
    warp.pc[:1] = load
    machine.step()
    assert [f.kind for f in machine.findings] == [UNWRITTEN]


# -- races


#: Exchanges elements with the thread 32 further on, or with the lane beside; then comes what may order that.
SWAP = "st.shared.u32 [%r2], %r0; {} xor.b32 %r3, %r2, 128; ld.shared.u32 %r1, [%r3]; {}"
SWAP_LANES = "st.shared.u32 [%r2], %r0; {} xor.b32 %r3, %r2, 4; ld.shared.u32 %r1, [%r3];"

#: Body, threads, blocks.
RACES = {
    "a missing barrier": (SWAP.format("", ""), 64, 1),
    "a barrier too early or too late": ("bar.sync 0; " + SWAP.format("", "bar.sync 0;"), 64, 1),
    "lanes of a warp are not ordered": (SWAP_LANES.format(""), 32, 1),
    "two writers": ("st.global.u32 [%d1], %r0;", 2, 1),
    "two blocks": ("mov.u32 %r3, %ctaid.x; st.global.u32 [%d1], %r3;", 1, 2),
    "a read before a write": (
        "ld.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r0, 5; @%p1 st.global.u32 [%d1], 1;", 8, 1,
    ),
    "an atomic and a plain access": (
        "setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%d1], 1; @!%p1 red.global.add.u32 [%d1], 1;", 2, 1,
    ),
    "overlapping sizes": (
        "setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%d1], 1; @!%p1 st.global.u8 [%d1+3], 1;", 2, 1,
    ),
    "barriers of other warps": (
        """setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], %r0; setp.lt.u32 %p2, %r0, 32; @%p2 bra first;
        bar.sync 1, 32; ld.shared.u32 %r1, [tile]; ret;
        first: bar.sync 2, 32;""", 64, 1,
    ),
    "a warp barrier of other lanes": (
        """setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], %r0; setp.lt.u32 %p2, %r0, 2;
        @!%p2 bra rest; bar.warp.sync 0x3; ret;
        rest: bar.warp.sync 0xc; ld.shared.u32 %r1, [tile];""", 4, 1,
    ),
}  # fmt: skip

#: The same with something to order them, and what is no race for another reason.
ORDERED = {
    "a barrier": (SWAP.format("bar.sync 0;", ""), 64, 1),
    "a barrier with a reduction": (
        SWAP.format("setp.eq.u32 %p1, 0, 0; bar.red.popc.u32 %r4, 0, %p1;", ""), 64, 1,
    ),
    "a warp barrier": (SWAP_LANES.format("bar.warp.sync -1;"), 32, 1),
    "barriers in a loop": (
        "mov.u32 %r6, 0; top: " + SWAP.format("bar.sync 0;", "bar.sync 0;")
        + " add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 3; @%p1 bra top;", 64, 1,
    ),
    "own elements": ("st.global.u32 [%d2], 1; ld.global.u32 %r1, [%d2]; st.global.u32 [%d2], %r1;", 64, 1),
    "neighbouring bytes": ("cvt.u64.u32 %d4, %r0; add.s64 %d4, %d4, %d1; st.global.u8 [%d4], %r0;", 64, 1),
    "everybody reads": ("ld.global.u32 %r1, [%d1];", 64, 2),
    "atomics": ("red.global.add.u32 [%d1], 1; atom.global.max.u32 %r1, [%d1], 1;", 64, 2),
    "shared memory of two blocks": ("setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], %r0;", 64, 2),
    "arrive and wait": (
        """setp.lt.u32 %p1, %r0, 32; @%p1 bra produce; bar.sync 1, 64; sub.u32 %r3, %r2, 128;
        ld.shared.u32 %r1, [%r3]; ret;
        produce: st.shared.u32 [%r2], %r0; bar.arrive 1, 64;""", 64, 1,
    ),
    "a flag": (
        """setp.eq.u32 %p1, %r0, 32; @%p1 bra write; setp.ne.u32 %p3, %r0, 0; @%p3 ret;
        spin: ld.volatile.global.u32 %r1, [%d1+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra spin;
        ld.global.u32 %r1, [%d1]; ret;
        write: st.global.u32 [%d1], 8; membar.gl; st.volatile.global.u32 [%d1+4], 1;""", 64, 1,
    ),
    "a lock": (
        """spin: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra spin;
        ld.global.u32 %r3, [%d1+4]; add.u32 %r3, %r3, 1; st.global.u32 [%d1+4], %r3; membar.gl;
        atom.global.exch.b32 %r1, [%d1], 0;""", 4, 2,
    ),
    "the last block reads what all have written": (
        """mov.u32 %r3, %ctaid.x; mul.wide.u32 %d4, %r3, 4; add.s64 %d4, %d4, %d1; st.global.u32 [%d4+8], %r3;
        membar.gl; atom.global.inc.u32 %r4, [%d1], 2; setp.ne.u32 %p1, %r4, 2; @%p1 ret;
        ld.global.u32 %r5, [%d1+8]; ld.global.u32 %r5, [%d1+12]; ld.global.u32 %r5, [%d1+16];""", 1, 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_races_are_found(name: str) -> None:
    body, block, grid = RACES[name]
    size: dict[str, Any] = {"block": str(block), "grid": str(grid)}
    assert [f.kind for f in findings(body, **size) if f.kind != UNWRITTEN] == ["race"]
    assert [f.kind for f in findings(body, races=False, **size) if f.kind != UNWRITTEN] == []


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered_is_no_race(name: str) -> None:
    body, block, grid = ORDERED[name]
    assert findings(body, block=str(block), grid=str(grid)) == []


def test_a_race_names_both_places() -> None:
    body = """mov.u32 %r0, %laneid; setp.eq.u32 %p1, %r0, 2;
        @%p1 st.shared.u32 [tile+20], %r0;
        @!%p1 bra skip;
        ret;
    skip: bar.warp.sync 0xb; setp.eq.u32 %p2, %r0, 3;
        @%p2 ld.shared.u32 %r1, [tile+20];"""
    (finding,) = findings(body, block="(2, 2)")
    assert (finding.kind, finding.block, finding.thread) == ("race", (0, 0, 0), (1, 1, 0))
    line = finding.line
    assert finding.message == (
        f"test.ptx:{line}: thread (1, 1, 0) of block (0, 0, 0) reads shared address 0x14, which thread "
        f"(0, 1, 0) of block (0, 0, 0) wrote at test.ptx:{line - 4} (`@%p1 st.shared.u32 [tile+20], %r0;`) "
        "with nothing to order the two; put a barrier between them, or make both atomic: "
        "`@%p2 ld.shared.u32 %r1, [tile+20];`"
    )


def test_results_do_not_depend_on_the_detector_and_history_works_with_it() -> None:
    body = f"{ELEMENT} {TILE} st.shared.u32 [%r2], %r0; bar.sync 0; xor.b32 %r3, %r2, 128;"
    body += "ld.shared.u32 %r1, [%r3]; st.global.u32 [%d2], %r1; ret;"
    loaded = source(kernel(body, "out = u32[64]", block="64", grid="2"))
    machine = Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)), races=True)
    snapshots = [machine.snapshot()]
    while machine.step() is not None:
        snapshots.append(machine.snapshot())
    found = machine.findings
    assert [f.kind for f in found] == ["race"], "two blocks write the same elements"
    for snapshot in snapshots[::7]:
        machine.restore(snapshot)
        machine.run()
        assert machine.array("out").tolist() == [t ^ 32 for t in range(64)]
        assert machine.findings == found
