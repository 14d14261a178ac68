"""Control flow against its definitions, evaluated by brute force on random graphs, and on compiler output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from qdbg.compiler.ptx.cfg import ControlFlow
from qdbg.compiler.ptx.ir import Function
from qdbg.compiler.ptx.parser import parse

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
DATA = Path(__file__).parent / "data"

#: A block ends with nothing, a jump, a conditional jump, a table jump, a return or a conditional return.
Ending = tuple[str, tuple[int, ...]]
#: What a block does before: (destination, source) of register moves.
Moves = list[tuple[int, int]]


def kernel(statements: str) -> Function:
    declarations = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<4>;"
    external = ".extern .func (.param .b32 r) f(.param .b32 a);"
    return parse(f"{HEAD}{external}.entry k() {{ {declarations}\n{statements}\n}}").kernels[0]


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[Moves, Ending]]:
    count = draw(st.integers(1, 9))
    block = st.integers(0, count - 1)
    register = st.integers(0, 3)
    moves = st.lists(st.tuples(register, register), max_size=3)
    kinds = st.sampled_from(["", "bra", "@%p0 bra", "brx.idx", "ret", "@%p0 ret", "trap"])
    found: list[tuple[Moves, Ending]] = []
    for _ in range(count):
        kind = draw(kinds)
        size = 3 if kind == "brx.idx" else 1
        found.append((draw(moves), (kind, tuple(draw(block) for _ in range(size)))))
    return found


def build(program: list[tuple[Moves, Ending]]) -> Function:
    lines: list[str] = []
    tables: list[str] = []
    for index, (moves, (kind, targets)) in enumerate(program):
        lines.append(f"B{index}: mov.u32 %r7, {index};")
        lines += [f"mov.u32 %r{into}, %r{source};" for into, source in moves]
        if kind == "brx.idx":
            tables.append(f"T{index}: .branchtargets {', '.join(f'B{one}' for one in targets)};")
            lines.append(f"brx.idx %r7, T{index};")
        elif kind:
            lines.append(f"{kind} B{targets[0]};" if "bra" in kind else f"{kind};")
    return kernel("\n".join(lines + tables))


def edges(flow: ControlFlow) -> dict[int, set[int]]:
    return {block.index: set(block.successors) for block in flow.blocks}


def reach(graph: dict[int, set[int]], roots: Iterable[int], without: int | None = None) -> set[int]:
    found: set[int] = set()
    stack = [root for root in roots if root != without]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [one for one in graph.get(node, ()) if one != without]
    return found


def leaves(function: Function, flow: ControlFlow) -> set[int]:
    """Blocks from which a lane can leave the function alive."""
    found = set()
    for block in flow.blocks:
        last = function.body[block.end - 1]
        falls_off = block.index == len(flow.blocks) - 1 and (
            last.opcode not in ("bra", "brx", "ret", "trap") or last.guard is not None
        )
        if last.opcode == "ret" or falls_off:
            found.add(block.index)
    return found


@settings(max_examples=150, deadline=None)
@given(programs())
def test_blocks_follow_the_program(program: list[tuple[Moves, Ending]]) -> None:
    function = build(program)
    flow = ControlFlow(function)
    assert [index for block in flow.blocks for index in range(block.start, block.end)] == list(
        range(len(function.body))
    )
    home = {index: flow.block_of(function.labels[f"B{index}"]).index for index in range(len(program))}
    for index, (moves, (kind, targets)) in enumerate(program):
        last = flow.block_of(function.labels[f"B{index}"] + len(moves) + (1 if kind else 0))
        expected = {home[target] for target in targets} if "br" in kind else set()
        if (kind == "" or kind.startswith("@")) and index + 1 < len(program):
            expected.add(home[index + 1])
        if kind or home.get(index + 1) != last.index:
            assert set(last.successors) == expected
    for block in flow.blocks:
        assert set(block.predecessors) == {one.index for one in flow.blocks if block.index in one.successors}


@settings(max_examples=150, deadline=None)
@given(programs())
def test_dominators_are_the_blocks_that_cannot_be_avoided(program: list[tuple[Moves, Ending]]) -> None:
    flow = ControlFlow(build(program))
    graph = edges(flow)
    live = reach(graph, [0])
    for block in live:
        expected = {one for one in live if one == block or block not in reach(graph, [0], without=one)}
        assert flow.dominators[block] == expected
        closest = flow.idom(block)
        if block == 0:
            assert closest is None
        else:
            assert closest is not None
            assert flow.dominators[closest] == expected - {block}


@settings(max_examples=150, deadline=None)
@given(programs())
def test_postdominators_are_on_every_way_out(program: list[tuple[Moves, Ending]]) -> None:
    function = build(program)
    flow = ControlFlow(function)
    graph = edges(flow)
    ways_out = leaves(function, flow)
    can_leave = {block for block in graph if reach(graph, [block]) & ways_out}
    for block in can_leave:
        # Without `other` no way out is left: `other` post-dominates.
        strict = {
            other for other in can_leave - {block} if not reach(graph, [block], without=other) & ways_out
        }
        nearest = flow.ipdom(block)
        if nearest is None:
            assert not strict
        else:
            assert nearest in strict
            assert all(
                other == nearest or not reach(graph, [nearest], without=other) & ways_out for other in strict
            )


@settings(max_examples=150, deadline=None)
@given(programs())
def test_order_is_topological_with_contiguous_loops(program: list[tuple[Moves, Ending]]) -> None:
    flow = ControlFlow(build(program))
    graph = edges(flow)
    live = reach(graph, [0])
    place = {block: index for index, block in enumerate(flow.order)}
    assert set(place) == live
    assert len(flow.order) == len(live)
    assert flow.order[0] == 0
    for block in live:
        for successor in graph[block]:
            if place[successor] <= place[block]:  # only an edge inside a cycle goes backwards
                assert block in reach(graph, [successor])
    for component in (reach(graph, [one]) & {b for b in live if one in reach(graph, [b])} for one in live):
        places = sorted(place[block] for block in component)
        assert places == list(range(places[0], places[0] + len(places)))


#: A block that nothing reaches jumps into a loop.
UNREACHED_ENTRY: list[tuple[Moves, Ending]] = [
    ([], ("bra", (4,))), ([], ("bra", (3,))), *[([], ("", (0,)))] * 5, ([], ("bra", (1,)))
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@example(UNREACHED_ENTRY)
@given(programs())
def test_natural_loops_are_contiguous(program: list[tuple[Moves, Ending]]) -> None:
    flow = ControlFlow(build(program))
    graph = edges(flow)
    live = reach(graph, [0])
    backwards = {block: {one for one in live if block in graph[one]} for block in live}
    back_edges = {(tail, head) for tail in live for head in graph[tail] & flow.dominators[tail]}
    forward = {one: {to for to in graph[one] if (one, to) not in back_edges} for one in live}
    assume(not any(one in reach(forward, forward[one]) for one in live))  # irreducible: no natural loops
    for head in {head for _, head in back_edges}:
        tails = [tail for tail, to in back_edges if to == head]
        loop = reach(backwards, tails, without=head) | {head}
        places = sorted(flow.order.index(block) for block in loop)
        assert places == list(range(places[0], places[0] + len(places)))
        assert flow.order[places[0]] == head


@settings(max_examples=150, deadline=None)
@given(programs())
def test_liveness_is_a_path_to_a_read(program: list[tuple[Moves, Ending]]) -> None:
    function = build(program)
    flow = ControlFlow(function)

    def is_read_from(start: int, name: str) -> bool:
        """Whether some path from the instruction `start` reads `name` before it is written."""
        seen: set[int] = set()
        stack = [start]
        while stack:
            index = stack.pop()
            if index in seen or index == len(function.body):
                continue
            seen.add(index)
            instruction = function.body[index]
            if name in flow.reads(instruction):
                return True
            if name in flow.writes(instruction):
                continue
            block = flow.block_of(index)
            ends = index + 1 == block.end
            stack += [flow.blocks[one].start for one in block.successors] if ends else [index + 1]
        return False

    for block in flow.blocks:
        assert flow.live_in[block.index] == {r for r in function.registers if is_read_from(block.start, r)}
        assert flow.live_out[block.index] == {
            r
            for r in function.registers
            for one in block.successors
            if is_read_from(flow.blocks[one].start, r)
        }


@pytest.mark.parametrize(
    ("statement", "reads", "writes"),
    [
        ("add.u32 %r0, %r1, %r2;", {"%r1", "%r2"}, {"%r0"}),
        ("add.u32 %r0, %r0, %r0;", {"%r0"}, {"%r0"}),
        ("@%p0 add.u32 %r0, %r1, 1;", {"%p0", "%r1", "%r0"}, {"%r0"}),
        ("@!%p0 bra L;", {"%p0"}, set()),
        ("ld.global.u32 %r0, [%rd0+4];", {"%rd0"}, {"%r0"}),
        ("ld.global.v2.u32 {%r0, _}, [%rd0];", {"%rd0"}, {"%r0"}),
        ("st.global.u32 [%rd0], %r0;", {"%rd0", "%r0"}, set()),
        ("@%p0 st.global.v2.u32 [%rd0], {%r0, %r1};", {"%p0", "%rd0", "%r0", "%r1"}, set()),
        ("atom.global.add.u32 %r0, [%rd0], %r1;", {"%rd0", "%r1"}, {"%r0"}),
        ("red.global.add.u32 [%rd0], %r1;", {"%rd0", "%r1"}, set()),
        ("setp.lt.and.s32 %p0|%p1, %r0, 3, !%p2;", {"%r0", "%p2"}, {"%p0", "%p1"}),
        ("shfl.sync.idx.b32 %r0|%p0, %r1, %r2, 31, -1;", {"%r1", "%r2"}, {"%r0", "%p0"}),
        ("mov.b64 {%r0, %r1}, %rd0;", {"%rd0"}, {"%r0", "%r1"}),
        ("mov.b64 %rd0, {%r0, %r1};", {"%r0", "%r1"}, {"%rd0"}),
        ("bar.sync %r0, %r1;", {"%r0", "%r1"}, set()),
        ("bar.red.popc.u32 %r0, %r1, %p0;", {"%r1", "%p0"}, {"%r0"}),
        ("call (%r0), f, (%r1);", {"%r1"}, {"%r0"}),
        ("call f, (%r1);", {"%r1"}, set()),
        ("call (%r0), %rd0, (%r1), P;", {"%rd0", "%r1"}, {"%r0"}),
        ("brx.idx %r0, T;", {"%r0"}, set()),
        ("vote.sync.ballot.b32 %r0, !%p0, -1;", {"%p0"}, {"%r0"}),
        ("nanosleep.u32 %r0;", {"%r0"}, set()),
        ("mov.u32 %r0, %tid.x;", set(), {"%r0"}),
        (
            "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%r0}];",
            {"%rd0", "%r0"},
            {"%f0", "%f1", "%f2", "%f3"},
        ),
        ("ret;", set(), set()),
    ],
)
def test_effects_of_every_operand_form(statement: str, reads: set[str], writes: set[str]) -> None:
    function = kernel(
        f"{statement}\nL: ret; T: .branchtargets L; P: .callprototype (.param .b32 _) _ (.param .b32 _);"
    )
    flow = ControlFlow(function)
    instruction = function.body[0]
    assert (set(flow.reads(instruction)), set(flow.writes(instruction))) == (reads, writes)
    assert len(flow.reads(instruction)) == len(reads)


def test_lanes_that_trap_or_never_end_do_not_delay_reconvergence() -> None:
    text = "@%p0 bra OK; trap; OK: @%p1 bra END; SPIN: bra SPIN; END: ret;"
    function = kernel(text)
    flow = ControlFlow(function)
    ok, end = (flow.block_of(function.labels[name]).index for name in ("OK", "END"))
    assert flow.ipdom(0) == ok
    assert flow.ipdom(ok) == end


def test_a_branch_inside_an_endless_loop_still_reconverges() -> None:
    function = kernel(
        "L: @%p0 bra B; A: mov.u32 %r0, 1; bra J; B: mov.u32 %r0, 2; J: mov.u32 %r1, %r0; bra L;"
    )
    flow = ControlFlow(function)
    join = flow.block_of(function.labels["J"]).index
    assert flow.ipdom(0) == join


def test_the_smallest_functions() -> None:
    empty = ControlFlow(kernel(""))
    assert [(block.start, block.end, block.successors) for block in empty.blocks] == [(0, 0, ())]
    assert empty.order == (0,)
    assert empty.ipdom(0) is None
    # A branch behind the last instruction leaves the function.
    behind = ControlFlow(kernel("@%p0 bra E; mov.u32 %r0, 1; E:"))
    assert [(block.start, block.end) for block in behind.blocks] == [(0, 1), (1, 2), (2, 2)]
    assert behind.ipdom(0) == 2


def test_a_chain_of_ten_thousand_blocks_needs_no_recursion() -> None:
    count = 10_000
    text = "\n".join(f"L{index}: @%p0 bra L{index};" for index in range(count))
    flow = ControlFlow(kernel(text + "\nret;"))
    assert flow.order == tuple(range(count + 1))
    assert flow.ipdom(0) == 1
    assert flow.idom(count) == count - 1
    assert flow.live_in[0] == {"%p0"}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda path: path.stem)
def test_compiler_output_reads_no_register_that_nothing_wrote(path: Path) -> None:
    """What is live at the entry was never written; nvcc leaves that only for the padding of structures."""
    for function in parse(path.read_text(), str(path)).functions:
        flow = ControlFlow(function)
        padding = {
            name
            for instruction in function.body
            if instruction.has("v2", "v4") and instruction.has("b8", "u8")
            for name in flow.reads(instruction)
        }
        assert flow.live_in[0] <= padding
