"""The session on the hand-written launch of `fakes`: what it shows is worked out from the PTX by hand."""

from __future__ import annotations

from pathlib import Path

import blocks
import fakes
import numpy as np
import pytest
from fakes import LINE, STORE_LINE, SUM_LINE

from qdbg.compiler.machine.config import TINY
from qdbg.compiler.machine.isa import Cond, Trap
from qdbg.compiler.machine.vocabulary import Kind, Token
from qdbg.runtime.breakpoints import BreakpointError
from qdbg.runtime.commands import SESSION_COMMANDS, CommandError, lookup, parse
from qdbg.runtime.control import Control, Glimpse
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare
from qdbg.runtime.session import Session
from qdbg.runtime.view import State

TRIANGULAR = [1, 3, 6, 10]
HEAD = [LINE["ld.param.u64 %rd1, [countdown_param_0]"] + i for i in range(4)]
LOOP = [SUM_LINE, LINE["add.s32 %r2, %r2, -1"], LINE["setp.ne.s32 %p1, %r2, 0"], LINE["@%p1 bra $L_loop"]]
TAIL = [LINE["mul.wide.s32 %rd2, %r1, 4"] + i for i in range(5)]


def registers(session: Session, name: str) -> tuple[int | None, ...]:
    return tuple(next(row for row in session.view().registers if row.name == name).machine)


def test_steps_follow_the_ptx() -> None:
    session = fakes.session()
    lines = []
    while not session.ended:
        lines.append(session.view().line)
        session.step()
    # Lane 3 goes round four times; the others leave before and wait.
    assert lines == HEAD + 4 * LOOP + TAIL
    assert session.mismatch is None
    assert session.view().memory[0].machine.tolist() == TRIANGULAR


def test_folded_instructions_cost_no_pass() -> None:
    session = fakes.session()
    session.step(2)  # ld.param and mov %tid.x
    view = session.view()
    assert (view.passes, view.instructions, view.line) == (0, 2, LINE["add.s32 %r2, %r1, 1"])
    session.step()
    assert session.view().passes == 4  # one small value a lane


def test_view_shows_both_sides() -> None:
    session = fakes.session()
    session.step(5)
    view = session.view()
    rows = {row.name: row for row in view.registers}
    assert [*rows["%r2"].machine] == [*rows["%r2"].interpreter] == [1, 2, 3, 4]
    assert [*rows["%r3"].machine] == [1, 2, 3, 4]
    assert rows["%r1"].place == "folded"
    assert [*rows["%r1"].machine] == [None] * 4
    assert [*rows["%r1"].interpreter] == [0, 1, 2, 3]
    assert not any(any(row.differs) for row in view.registers)
    assert view.cuda_line == 5
    assert view.tokens[-1].meaning.split() == ["l3", "%r3", "=", "4"]
    assert view.tokens[-1].line == SUM_LINE


def test_changes_are_marked_for_the_lanes_that_ran() -> None:
    session = fakes.session()
    session.toggle_breakpoint(SUM_LINE)
    session.proceed()
    session.view()
    session.proceed()  # once round the loop: lane 0 has left it
    before = session.view()
    row = next(r for r in before.registers if r.name == "%r2")
    assert before.active == (False, True, True, True)
    assert [*row.machine] == [0, 1, 2, 3]
    assert row.changed.tolist() == [True, True, True, True]
    session.set_focus(2)
    after = session.retouched(before)
    assert after.focus == 2
    assert after.registers is before.registers


def test_breakpoint_in_the_loop_is_hit_once_a_round() -> None:
    session = fakes.session()
    session.toggle_breakpoint(SUM_LINE)
    masks, sums = [], []
    for _ in range(4):
        session.proceed()
        masks.append(session.view().mask)
        sums.append(registers(session, "%r3")[3])
    assert masks == [0b1111, 0b1110, 0b1100, 0b1000]
    assert sums == [0, 4, 7, 9]
    assert session.status == "breakpoint 1, hit 4"
    session.proceed()
    assert session.state is State.ENDED


def test_breakpoint_on_a_folded_line_stops_there() -> None:
    session = fakes.session()
    line = LINE["add.s64 %rd4, %rd3, %rd2"]
    session.toggle_breakpoint(line)
    session.proceed()
    assert session.view().line == line
    assert session.view().memory[0].machine.tolist() == [0, 0, 0, 0]
    session.step(2)
    assert session.view().memory[0].machine.tolist() == TRIANGULAR


def test_breakpoint_toggles_and_refuses() -> None:
    session = fakes.session()
    assert "line 20" in session.toggle_breakpoint(18)  # the label's line has no instruction
    assert session.toggle_breakpoint(SUM_LINE) == "breakpoint removed"
    assert session.breakpoints.all() == ()
    with pytest.raises(BreakpointError, match="behind the last instruction"):
        session.toggle_breakpoint(999)
    with pytest.raises(BreakpointError, match="CUDA line 50"):
        session.toggle_breakpoint(50, cuda=True)


def test_cuda_lines() -> None:
    session = fakes.session()
    session.toggle_breakpoint(6, cuda=True)
    session.proceed()
    assert session.view().line == SUM_LINE
    session.next_line()
    assert session.view().cuda_line == 5
    session.run_to(7, cuda=True)
    assert session.view().cuda_line == 6  # the breakpoint comes first
    session.breakpoints.clear()
    session.run_to(7, cuda=True)
    assert session.view().line == TAIL[0]


def test_wrong_value_is_found_at_once() -> None:
    session = fakes.session(fakes.program(step=-2))
    session.proceed()
    found = session.mismatch
    assert session.state is State.MISMATCH
    assert found is not None
    assert (found.lane, found.line, found.register) == (0, LOOP[1], "%r2")
    assert (found.expected, found.got) == ("0", "-1")
    row = next(r for r in session.view().registers if r.name == "%r2")
    assert row.differs.tolist() == [True, True, True, True]


def test_wrong_path_is_found() -> None:
    session = fakes.session(fakes.program(again=Cond.LT | Cond.EQ | Cond.GT))
    session.proceed()
    found = session.mismatch
    assert found is not None
    assert (found.lane, found.register) == (0, "path")
    assert (found.got, found.expected) == (f"at line {SUM_LINE}", f"at line {STORE_LINE}")


def test_machine_goes_on_alone_after_a_mismatch() -> None:
    session = fakes.session(fakes.program(step=-2), pass_limit=200)
    session.proceed()
    first = session.mismatch
    session.step(3)
    assert session.mismatch is first
    assert session.state is State.STOPPED


class Babbling(Emulator):
    """Says something impossible at the third pass."""

    def step(self) -> int:
        token = super().step()
        return self.vocabulary[Token(Kind.BIT, lane=1)] if self.passes == 3 else token


def test_senseless_token_is_a_mismatch() -> None:
    session = fakes.session(engine=Babbling(TINY))
    session.proceed()
    assert session.state is State.MISMATCH
    assert "pass 3" in str(session.mismatch)
    assert "makes no sense" in str(session.mismatch)


def test_trap_names_the_thread() -> None:
    session = fakes.session(elements=3)
    session.proceed()
    trap = session.trap()
    assert session.state is State.TRAPPED
    assert session.mismatch is None
    assert trap is not None
    assert (trap.thread, trap.line, trap.reason) == ((3, 0, 0), STORE_LINE, "out of bounds")
    assert session.trace.trap == (3, Trap.OUT_OF_BOUNDS, 8)
    assert session.view().memory[0].machine.tolist() == TRIANGULAR[:3]


def test_interrupt_loses_nothing() -> None:
    session = fakes.session()
    seen: list[Glimpse] = []
    session.proceed(Control(lambda: len(seen) == 20, seen.append))
    assert session.status == "interrupted"
    assert len(session.tokens) == 20
    session.proceed()
    assert session.view().memory[0].machine.tolist() == TRIANGULAR
    assert session.mismatch is None


def test_pass_limit() -> None:
    session = fakes.session(pass_limit=10)
    session.proceed()
    assert session.state is State.STOPPED
    assert "pass limit of 10" in session.status


def test_back_and_restart() -> None:
    session = fakes.session()
    session.toggle_breakpoint(SUM_LINE)
    session.proceed()
    passes, values = len(session.tokens), registers(session, "%r3")
    session.forwards(2)  # stops in the middle of the warp's instruction
    session.proceed()
    session.back(2)
    assert (len(session.tokens), registers(session, "%r3")) == (passes, values)
    session.breakpoints.clear()
    session.proceed()
    assert session.mismatch is None
    assert session.view().memory[0].machine.tolist() == TRIANGULAR
    session.restart()
    assert session.view().line == HEAD[0]
    session.proceed()
    assert session.view().memory[0].machine.tolist() == TRIANGULAR


def test_single_passes_show_a_lane_at_a_time() -> None:
    session = fakes.session()
    session.forwards(2)
    assert registers(session, "%r2") == (1, 2, None, None)
    assert session.mismatch is None


def test_the_block_in_sight_is_one_of_the_grid(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(
        "// qdbg: launch k<<<(2, 2), 4>>>(out = u32[1])\n"
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out)\n"
        "{\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\n"
        "mov.u32 %r2, %ctaid.y;\nadd.u32 %r1, %r1, %r2;\nst.global.u32 [%rd1], %r1;\nret;\n}\n"
    )
    session = blocks.started(prepare(file, LaunchOptions()))
    seen = [session.view().block]
    while not session.ended:
        session.forwards()
        if seen[-1] != session.view().block:
            seen.append(session.view().block)
    assert seen == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]


def test_focus() -> None:
    session = fakes.session()
    session.turn_focus(-1)
    assert session.view().thread == (3, 0, 0)
    with pytest.raises(CommandError, match="lanes 0 to 3"):
        session.set_focus(4)


def test_print() -> None:
    session = fakes.session()
    session.proceed()
    assert session.describe("out").endswith(": 1 3 6 10")
    assert "l3 10" in session.describe("%r3")
    assert session.describe("%r1") == "%r1 (folded): l0 (0)  l1 (1)  l2 (2)  l3 (3)"  # the interpreter's
    assert session.describe("%r2") == "%r2 (v0): l0-3 0"  # every lane has counted down
    with pytest.raises(CommandError, match="no register"):
        session.describe("nothing")


@pytest.mark.parametrize(
    ("typed", "name", "argument"),
    [("s", "step", ""), ("5s", "step", "5"), ("cont", "continue", ""), ("b cu:6", "break", "cu:6")],
)
def test_command_lines(typed: str, name: str, argument: str) -> None:
    word, rest = parse(typed)
    command = lookup(SESSION_COMMANDS, word)
    assert command is not None
    assert (command.name, rest) == (name, argument)


def test_ambiguous_command_is_none() -> None:
    assert lookup(SESSION_COMMANDS, "res") is not None
    assert lookup(SESSION_COMMANDS, "re") is None
    assert lookup(SESSION_COMMANDS, "warp") is None
    assert lookup(SESSION_COMMANDS, "") is None


@pytest.mark.parametrize("argument", ["x", "0", "x:3", ""])
def test_bad_line_is_one_sentence(argument: str) -> None:
    command = lookup(SESSION_COMMANDS, "until")
    assert command is not None
    with pytest.raises(CommandError):
        command.run(fakes.session(), argument, Control())


def test_memory_is_compared_at_the_end() -> None:
    class Forgetful(Emulator):
        """Loses a word of memory when nobody looks any more."""

        def state(self):  # type: ignore[no-untyped-def]
            state = super().state()
            state.memory[2] = np.uint32(0)
            return state

    session = fakes.session(engine=Forgetful(TINY))
    session.proceed()
    assert session.mismatch is not None
    assert session.mismatch.register == "memory at 0x1008 (out)"
    assert (session.mismatch.expected, session.mismatch.got) == ("0x00000006", "0x00000000")
