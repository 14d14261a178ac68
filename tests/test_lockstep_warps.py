"""The interpreter in step with blocks of several warps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import blocks
import pytest

from qdbg.compiler.machine.isa import Cond, Instr, Op
from qdbg.compiler.ptx.ir import TYPE_BITS
from qdbg.runtime import outcome
from qdbg.runtime.commands import CommandError
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launcher import Prepared
from qdbg.runtime.session import Session
from qdbg.runtime.view import State


def changed(launch: Prepared, old: Op, new: dict[str, object]) -> Session:
    """A session whose machine does the first instruction `old` in another way."""
    image = launch.image
    place = next(pc for pc, instr in enumerate(image.program.code) if instr.op is old)
    code: list[Instr] = list(image.program.code)
    code[place] = replace(code[place], **new)  # type: ignore[arg-type]
    image = replace(image, program=replace(image.program, code=tuple(code)))
    session = Session(
        launch.source, launch.bound, image.program, Emulator(launch.config),
        Interpreter(launch.source.ptx, launch.bound), image.vocabulary, launch.config, image.ids,
    )  # fmt: skip
    session.start()
    return session


@pytest.mark.parametrize("name", blocks.PROGRAMS)
def test_blocks_of_four_warps_are_exact(tmp_path: Path, name: str) -> None:
    result = outcome.run(blocks.started(blocks.prepared(tmp_path, name)))
    assert result.mismatch is None
    assert (result.exact, result.expected, result.status) == (True, True, 0)


def test_instructions_are_counted_a_warp(tmp_path: Path) -> None:
    """Two warps leave at once (ld, mov, mul, add, setp, bra, ret), two go on (bar, mov, st as well)."""
    result = outcome.run(blocks.started(blocks.prepared(tmp_path, "leaving")))
    assert result.ptx_instructions == 2 * 7 + 2 * 10


@pytest.mark.parametrize("name", ["exchange", "long"])
def test_both_sides_of_a_view_agree_at_every_step(tmp_path: Path, name: str) -> None:
    session = blocks.started(blocks.prepared(tmp_path, name))
    wide = 0
    while not session.ended:
        view, busy = session.view(), (session.trace.instruction.result or "").removesuffix(".hi")
        for row in view.registers:
            bits = TYPE_BITS[row.type]
            for m, i, short, stale in zip(row.machine, row.interpreter, row.short, row.stale, strict=True):
                if m is not None and i is not None and row.name != busy and not stale:
                    mask = (1 << (32 if short else bits)) - 1
                    assert m & mask == i & mask, f"{row.name} at line {view.line}"
                    wide += bits == 64 and not short
        session.step()
    assert session.status == "ended, exact"
    assert (wide > 0) == (name == "long")


def test_a_wrong_value_in_the_last_warp_is_found(tmp_path: Path) -> None:
    """The machine multiplies by 5 instead of 3, in odd lanes: the first of them is in warp 0."""
    session = changed(blocks.prepared(tmp_path, "exchange"), Op.MAD, {"immediate": 5})
    session.proceed()
    found = session.mismatch
    assert found is not None
    assert (found.warp, found.lane, found.register) == (0, 1, "%r6")
    assert (found.expected, found.got) == (str(126 * 3), str(126 * 5))


def test_a_wrong_half_is_found(tmp_path: Path) -> None:
    """The carry into the high word of a product goes wrong."""
    launch = blocks.prepared(tmp_path, "long")
    session = changed(launch, Op.MADH, {"op": Op.MADS})
    session.proceed()
    found = session.mismatch
    assert found is not None
    assert found.register.endswith(".hi")


def test_a_vote_without_some_of_its_lanes_is_found(tmp_path: Path) -> None:
    """The machine takes the lanes whose predicate is false for those where it is true, and vice versa."""
    launch = blocks.prepared(tmp_path, "together")
    session = changed(launch, Op.CBR, {"cond": Cond.LT | Cond.GT})
    session.proceed()
    found = session.mismatch
    assert found is not None
    voters = sum(1 << lane for lane in range(32) if lane & 5 == 0)
    # The ballot itself, or where only its parts come back as tokens, the number of its bits.
    assert (found.register, found.expected) in (("%r3", str(voters)), ("%r4", str(voters.bit_count())))


def test_a_trap_in_a_later_warp_names_it(tmp_path: Path) -> None:
    """The array ends before thread 81, lane 17 of warp 2; what lies before it has been written."""
    body = blocks.ELEMENT + "add.u32 %r2, %r1, 5; st.global.u32 [%rd3], %r2;"
    launch = blocks.launch(tmp_path, body, "u32[81]", None)
    session = blocks.started(launch)
    result = outcome.run(session)
    assert result.mismatch is None
    assert result.trap is not None
    assert (result.trap.warp, result.trap.lane, result.trap.thread) == (2, 17, (81, 0, 0))
    store = next(i for i in launch.bound.kernel.body if i.opcode == "st")
    assert (result.trap.line, result.trap.reason) == (store.line, "out of bounds")
    assert result.outputs["out"]["data"] == [t + 5 for t in range(81)]
    assert session.view().focus == 81


def test_the_focus_goes_from_warp_to_warp(tmp_path: Path) -> None:
    session = blocks.started(blocks.prepared(tmp_path, "leaving"))
    assert session.set_focus(5) == "warp 0 lane 5"
    assert session.turn_warp(-1) == "warp 3 lane 5"
    view = session.view()
    assert (view.warp, view.warps, view.thread) == (3, 4, (101, 0, 0))
    assert view.lanes == tuple(range(96, 128))
    session.set_focus(31)
    assert session.turn_focus(1) == "warp 3 lane 0"
    with pytest.raises(CommandError, match="warp 3 has lanes 0 to 31"):
        session.set_focus(32)
    (line,) = (i.line for i in session.kernel.body if i.opcode == "st")
    session.run_to(line)
    assert session.state is State.STOPPED
    assert session.view().masks == (0xFFFFFFFF, 0xFFFFFFFF, 0, 0)
    session.step()
    assert "w1 l31 stored" in [token.meaning for token in session.view().tokens]


def test_a_block_that_does_not_fill_its_last_warp(tmp_path: Path) -> None:
    launch = blocks.launch(tmp_path, blocks.ELEMENT + "st.global.u32 [%rd3], %r1;", "u32[40]", None)
    launch = replace(launch, bound=replace(launch.bound, block=(40, 1, 1)))
    session = blocks.started(launch)
    session.turn_warp(1)
    assert session.view().lanes == tuple(range(32, 40))
    result = outcome.run(session)
    assert result.exact
    assert result.outputs["out"]["data"] == list(range(40))
