"""The screen, driven by keys and clicks, on the hand-written launch of `fakes`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import blocks
import fakes
import pytest
from driver import SMALL, WIDE, Debugger, app, debugger, message, press, shown_line, until, visible
from fakes import LINE, STORE_LINE, SUM_LINE
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Static

from qdbg.cli.failure import Exit, Failure, describe
from qdbg.compiler.machine.config import TINY
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.session import Session
from qdbg.runtime.view import State
from qdbg.ui import run_debugger
from qdbg.ui.app import DebuggerApp
from qdbg.ui.header import StatusLine
from qdbg.ui.memory import MemoryPane
from qdbg.ui.pane import Pane
from qdbg.ui.registers import RegisterPane
from qdbg.ui.runner import Report
from qdbg.ui.source import SourcePane
from qdbg.ui.tokens import TokenPane


async def test_steps_and_shows_values() -> None:
    async with debugger() as pilot:
        await press(pilot, *"sss")
        assert shown_line(pilot) == LINE["mov.u32 %r3, 0"]
        registers = pilot.app.query_one(RegisterPane).text()
        (row,) = (line for line in registers.splitlines() if line.startswith("%r2"))
        assert row.split() == ["%r2", "v0", "1!", "2!", "3!", "4!"]
        assert "l3   %r2 = 4" in pilot.app.query_one(TokenPane).text()
        assert pilot.app.query_one("#ptx", SourcePane).current == LINE["mov.u32 %r3, 0"]
        assert pilot.app.query_one("#cuda", SourcePane).current == 3


async def test_folded_values_are_called_the_interpreters() -> None:
    async with debugger() as pilot:
        await press(pilot, *"sss")
        registers = pilot.app.query_one(RegisterPane)
        (row,) = (line for line in registers.text().splitlines() if line.startswith("%r1"))
        assert row.split() == ["%r1", "folded", "(0)", "(1)", "(2)", "(3)"]
        assert "(4) folded: interpreter's" in str(registers.border_subtitle)
        await press(pilot, "question_mark")
        assert "the interpreter's value" in str(pilot.app.screen.query(Static).last().content)


async def test_single_pass() -> None:
    async with debugger() as pilot:
        await press(pilot, "full_stop", "full_stop")
        view = app(pilot).view
        assert view is not None
        assert view.passes == 2


async def test_breakpoint_by_key_and_continue() -> None:
    async with debugger() as pilot:
        pane = pilot.app.query_one("#ptx", SourcePane)
        await press(pilot, *["down"] * (SUM_LINE - pane.cursor), "b")
        assert SUM_LINE in pane.breakpoints
        await press(pilot, "c", "c")
        assert shown_line(pilot) == SUM_LINE
        assert pane.text().splitlines()[SUM_LINE - 1].startswith("●►")
        assert "breakpoint 1, hit 2" in str(pilot.app.query_one(StatusLine).render())
        await press(pilot, "space")
        assert not pane.breakpoints


@pytest.mark.parametrize("size", [WIDE, SMALL])
async def test_breakpoint_by_click(size: tuple[int, int]) -> None:
    async with debugger(size=size) as pilot:
        pane = pilot.app.query_one("#ptx", SourcePane)
        line = LINE["add.s32 %r2, %r1, 1"]
        row = line - round(pane.scroll_y)  # the border is row 0
        await pilot.click("#ptx", offset=(2, row))
        await pilot.pause()
        assert pane.breakpoints == {line}
        await pilot.click("#ptx", offset=(20, row + 1))
        await pilot.pause()
        assert pane.breakpoints == {line}
        assert pane.cursor == line + 1


async def test_current_line_is_on_the_screen_from_the_start() -> None:
    async with debugger(size=(60, 16)) as pilot:
        pane = pilot.app.query_one("#ptx", SourcePane)
        first = round(pane.scroll_y)
        assert first < LINE["ld.param.u64 %rd1, [countdown_param_0]"] <= first + pane.content_size.height


async def test_cuda_breakpoint_and_run_to_cursor() -> None:
    async with debugger() as pilot:
        pilot.app.query_one("#cuda").focus()
        pane = pilot.app.query_one("#cuda", SourcePane)
        await press(pilot, *["down"] * (6 - pane.cursor), "b", "c")
        assert shown_line(pilot) == SUM_LINE
        assert pane.breakpoints == {6}
        await press(pilot, "b", "down", "t")
        assert shown_line(pilot) == LINE["mul.wide.s32 %rd2, %r1, 4"]


async def test_breakpoint_before_the_session_is_open() -> None:
    gate = threading.Event()

    def slow(report: Report) -> Session:
        gate.wait(5)
        return fakes.session()

    async with debugger(slow, wait=False) as pilot:
        assert "countdown" in pilot.app.query_one("#cuda", SourcePane).text()
        await pilot.press(*["down"] * 5, "b", "s")
        assert "being opened" in message(pilot)
        gate.set()
        await until(pilot, lambda: app(pilot).view is not None)
        await press(pilot, "c")
        assert shown_line(pilot) == SUM_LINE


async def test_mismatch_is_shown() -> None:
    async with debugger(lambda report: fakes.session(fakes.program(step=-2))) as pilot:
        await press(pilot, "c")
        assert message(pilot).startswith("MISMATCH pass 14")
        assert "%r2: machine -1, interpreter 0" in message(pilot)
        text = pilot.app.query_one(RegisterPane).text().splitlines()
        at = next(i for i, line in enumerate(text) if line.startswith("%r2"))
        assert text[at].split()[2:] == ["-1X", "0X", "1X", "2X"]
        assert text[at + 1].split() == ["ref", "0", "1", "2", "3"]
        assert pilot.app.query_one("#ptx", SourcePane).cursor == LINE["add.s32 %r2, %r2, -1"]
        await press(pilot, "q")
    assert pilot.app.return_value == 1


async def test_trap_is_shown() -> None:
    async with debugger(lambda report: fakes.session(elements=3)) as pilot:
        await press(pilot, "c")
        assert "thread (3, 0, 0)" in message(pilot)
        assert f"line {STORE_LINE}: out of bounds" in message(pilot)
        assert pilot.app.query_one("#ptx", SourcePane).cursor == shown_line(pilot) == STORE_LINE
        assert "►lane 3" in pilot.app.query_one(RegisterPane).text()
        await press(pilot, "s")
        assert "r starts it again" in message(pilot)
        await press(pilot, "colon", *"print %r1", "enter")
        assert message(pilot).startswith("%r1 (folded)")
        await press(pilot, "tab", "x", "left")
        assert message(pilot) == "lane 2"
        await press(pilot, "r", "c")
        assert "out of bounds" in message(pilot)
        await press(pilot, "q")
    assert pilot.app.return_value == 3


async def test_a_long_sentence_is_shown_whole_on_a_small_terminal() -> None:
    async with debugger(lambda report: fakes.session(elements=3), size=(60, 16)) as pilot:
        await press(pilot, "c")
        line = pilot.app.query_one("#message", Static)
        assert len(message(pilot)) > 60
        rows = ["".join(part.text for part in line.render_line(y)) for y in range(line.size.height)]
        assert " ".join(" ".join(rows).split()) == message(pilot)


async def test_a_refusal_goes_when_the_next_command_is_carried_out() -> None:
    async with debugger() as pilot:
        await press(pilot, "colon", *"pane x", "enter")
        assert "there is no pane" in message(pilot)
        await press(pilot, "tab")
        assert message(pilot) == ""


def burst(pilot: Debugger, keys: str) -> None:
    """Keys that arrive faster than any is dealt with, as those of a paste or of a busy terminal do."""
    names = {":": "colon", " ": "space", "?": "question_mark", "\n": "enter"}
    for key in keys:
        pilot.app.post_message(events.Key(names.get(key, key), None if key == "\n" else key))


async def test_keys_typed_ahead_are_the_prompts() -> None:
    async with debugger() as pilot:
        burst(pilot, ":lane 2\n")
        await until(pilot, lambda: message(pilot) == "lane 2")
        session = app(pilot).session
        assert session is not None
        assert not session.breakpoints.all()
        assert not session.tokens
        burst(pilot, ":break cu:6\n")
        await until(pilot, lambda: bool(session.breakpoints.all()))
        assert "breakpoint 1 at CUDA line 6" in message(pilot)


async def test_commands_that_open_the_prompt_leave_it_the_focus() -> None:
    async with debugger() as pilot:
        burst(pilot, ":find\n")
        await until(pilot, lambda: "find" in str(pilot.app.query_one("#prompt-name", Static).content))
        await press(pilot, *"st.global", "enter")
        assert pilot.app.query_one("#ptx", SourcePane).cursor == STORE_LINE
        await press(pilot, "ctrl+p", *"lane N")
        await pilot.press("enter")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        await press(pilot, "3", "enter")
        assert message(pilot) == "lane 3"


async def test_keys_typed_ahead_are_the_help_pages() -> None:
    async with debugger() as pilot:
        burst(pilot, "?q")
        await pilot.pause(0.2)
        assert pilot.app.return_value is None
        assert len(pilot.app.screen_stack) == 1
        await press(pilot, "s")
        assert app(pilot).view is not None


class Slow(Emulator):
    """Waits at the twentieth pass until the test has pressed ctrl+c."""

    gate = threading.Event()

    def step(self) -> int:
        if self.passes == 20:
            self.gate.wait(5)
        return super().step()


async def test_interrupt_and_go_on() -> None:
    Slow.gate.clear()
    async with debugger(lambda report: fakes.session(engine=Slow(TINY))) as pilot:
        await pilot.press("c")
        await until(pilot, lambda: len(app(pilot).session.tokens) >= 20)  # type: ignore[union-attr]
        await until(pilot, lambda: "ctrl+c interrupt" in str(pilot.app.query_one("#keys", Static).content))
        await pilot.press("ctrl+c")
        Slow.gate.set()
        await until(pilot, lambda: not app(pilot).runner.busy)
        await pilot.pause()
        view = app(pilot).view
        assert view is not None
        assert (view.state, view.status) == (State.STOPPED, "interrupted")
        await press(pilot, "ctrl+c")
        assert "nothing is running" in message(pilot)
        await press(pilot, "c")
        assert pilot.app.query_one(MemoryPane).text().split()[2:] == ["1!", "3!", "6!", "10!"]
        await press(pilot, "q")
    assert pilot.app.return_value == 0


async def test_restart_and_back() -> None:
    async with debugger() as pilot:
        await press(pilot, "c")
        assert "ended, exact" in str(pilot.app.query_one(StatusLine).render())
        assert pilot.app.query_one("#ptx", SourcePane).cursor == LINE["ret"]
        await press(pilot, "r")
        assert shown_line(pilot) == LINE["ld.param.u64 %rd1, [countdown_param_0]"]
        await press(pilot, "s", "s", "S")
        assert shown_line(pilot) == LINE["mov.u32 %r1, %tid.x"]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("print %none", "there is no register and no array '%none' in"),
        ("step 0", "0 is not"),
        ("until 99", "line 99 is behind the last instruction of"),
    ],
)
async def test_a_command_that_the_session_refuses_is_one_sentence(command: str, sentence: str) -> None:
    async with debugger() as pilot:
        app(pilot).execute(command)
        await until(pilot, lambda: not app(pilot).runner.busy)
        await pilot.pause()
        assert message(pilot).strip().startswith(sentence)


async def test_error_while_opening_is_one_sentence_and_a_status() -> None:
    def broken(report: Report) -> Session:
        report("compiling", None)
        raise OSError("countdown.cu:3: expected a ';'")

    async with debugger(broken, wait=False) as pilot:
        await until(pilot, lambda: "expected" in message(pilot))
        assert message(pilot) == "countdown.cu:3: expected a ';'  (q leaves)"
        await press(pilot, "s", "right_square_bracket")
        assert message(pilot) == "countdown.cu:3: expected a ';'  (q leaves)"
        await press(pilot, "q")
    assert pilot.app.return_value == 2


async def test_progress_of_the_opening() -> None:
    gate = threading.Event()

    def slow(report: Report) -> Session:
        report("building the checkpoint", 0.4)
        gate.wait(5)
        return fakes.session()

    async with debugger(slow, wait=False) as pilot:
        await until(pilot, lambda: "checkpoint" in str(pilot.app.query_one(StatusLine).render()))
        assert "40%" in str(pilot.app.query_one(StatusLine).render())
        await pilot.press("left_square_bracket")
        assert message(pilot) == "warp-left: the launch is being opened, wait until it is at its start"
        gate.set()


async def test_small_terminal_shows_two_panes_and_tab_the_others() -> None:
    async with debugger(size=SMALL) as pilot:
        assert visible(pilot) == {"ptx", "registers"}
        seen = []
        for _ in range(4):
            await press(pilot, "tab")
            seen.append(visible(pilot))
        assert seen == [{"ptx", "registers"}, {"ptx", "memory"}, {"ptx", "tokens"}, {"cuda", "tokens"}]
        await press(pilot, "z")
        assert visible(pilot) == {"cuda"}
        await press(pilot, "z", "tab")
        assert visible(pilot) == {"ptx", "tokens"}


async def test_tiny_terminal_says_so_and_recovers() -> None:
    async with debugger(size=(40, 10)) as pilot:
        tiny = pilot.app.query_one("#tiny", Static)
        assert tiny.display
        assert str(tiny.content) == "terminal too small (40x10): qdbg needs 60x16"
        assert visible(pilot) == set()
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert not tiny.display
        assert visible(pilot) == {"ptx", "cuda", "registers", "memory", "tokens"}


async def test_prompt_history_completion_and_errors() -> None:
    async with debugger() as pilot:
        await press(pilot, "colon", *"break 20", "enter", "colon", *"cont")
        await pilot.pause()
        await press(pilot, "tab", "enter")
        assert shown_line(pilot) == SUM_LINE
        await press(pilot, "colon", "up", "up", "enter")
        assert not app(pilot).query_one("#ptx", SourcePane).breakpoints
        await press(pilot, "colon", *"frobnicate", "enter")
        assert message(pilot) == "there is no command 'frobnicate': ? lists them"
        await press(pilot, "colon", *"lane 9", "enter")
        assert "lanes 0 to 3" in message(pilot)
        await press(pilot, "colon", *"print %r3", "enter")
        assert message(pilot) == "%r3 (v1): l0-3 0"
        await press(pilot, "escape", "s")
        assert shown_line(pilot) == LINE["add.s32 %r2, %r2, -1"]


async def test_focus_returns_from_the_prompt() -> None:
    async with debugger() as pilot:
        pilot.app.query_one(RegisterPane).focus()
        await press(pilot, "colon", *"lane", "escape")
        assert isinstance(pilot.app.focused, RegisterPane)
        await press(pilot, "colon", *"lane 2", "enter")
        assert isinstance(pilot.app.focused, RegisterPane)
        assert message(pilot) == "lane 2"
        await press(pilot, "s")
        assert app(pilot).session.lockstep.issued == 1  # type: ignore[union-attr]


async def test_enter_typed_twice_into_the_palette_chooses_once() -> None:
    async with debugger() as pilot:
        await press(pilot, "ctrl+p", *"step")
        await pilot.pause(0.3)
        for _ in range(3):
            pilot.app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1 and not app(pilot).runner.busy)
        await pilot.pause(0.1)
        assert app(pilot).session.lockstep.issued == 1  # type: ignore[union-attr]


def headless(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Let `run_debugger` open no screen, and press keys once the session is open or has failed."""

    async def press_keys(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: not app(pilot).runner.busy)
        await pilot.pause()
        await pilot.press(*keys)

    def run(self: DebuggerApp) -> int | None:
        return App.run(self, headless=True, size=WIDE, auto_pilot=press_keys)

    monkeypatch.setattr(DebuggerApp, "run", run)


def test_unexpected_error_is_a_sentence_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(self: DebuggerApp) -> str:
        raise RuntimeError("no such colour")

    headless(monkeypatch, "T")
    monkeypatch.setattr(DebuggerApp, "toggle_theme", broken)
    status = run_debugger(lambda report: fakes.session(), "countdown.cu", fakes.CUDA, "cuda", describe)
    said = capfd.readouterr().err
    assert status == 2
    assert said.count("\n") == 1
    assert said.startswith("qdbg: ")
    assert "RuntimeError: no such colour" in said


def test_failed_opening_is_said_after_the_screen_closed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(report: Report) -> Session:
        raise Failure("countdown.cu:3: expected a ';'", Exit.UNSUPPORTED)

    headless(monkeypatch, "q")
    status = run_debugger(broken, "countdown.cu", fakes.CUDA, "cuda", describe)
    assert status == Exit.UNSUPPORTED
    assert capfd.readouterr().err == "qdbg: countdown.cu:3: expected a ';'\n"


async def test_tokens_keep_their_meaning_at_120_columns() -> None:
    async with debugger(size=(120, 40)) as pilot:
        await press(pilot, "c")
        view = app(pilot).view
        assert view is not None
        pane = pilot.app.query_one(TokenPane)
        width = pane.scrollable_content_region.width
        shown = [line[:width].rstrip() for line in pane.text().splitlines()]
        assert all(t.meaning in line for t, line in zip(view.tokens, shown, strict=True))


async def test_focus_moves_without_changing_anything_else() -> None:
    async with debugger() as pilot:
        await press(pilot, *"sss")
        before = app(pilot).view
        await press(pilot, "right", "right")
        after = app(pilot).view
        assert before is not None
        assert after is not None
        assert after.focus == 2
        assert after.registers is before.registers
        assert "►lane 2" in pilot.app.query_one(RegisterPane).text()


async def test_a_stop_repaints_what_changed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a parameter moves the machine by a PTX line, and that is all there is to see of it."""
    async with debugger() as pilot:
        painted: list[tuple[str | None, int]] = []
        original = Pane.render_line

        def render_line(pane: Pane, y: int) -> Strip:
            painted.append((pane.id, y))
            return original(pane, y)

        monkeypatch.setattr(Pane, "render_line", render_line)
        await press(pilot, "s")
        assert shown_line(pilot) == LINE["mov.u32 %r1, %tid.x"]
        assert {name for name, _ in painted} <= {"ptx", "registers"}
        assert sum(name == "registers" for name, _ in painted) <= 1  # %rd1, which the interpreter has now


async def test_places_of_registers_are_shown_where_they_cost_no_lane() -> None:
    async with debugger(size=SMALL) as pilot:
        pane = pilot.app.query_one(RegisterPane)
        await press(pilot, *"sss")
        row = next(line for line in pane.text().splitlines() if line.startswith("%r2"))
        assert row.split() == ["%r2", "1!", "2!", "3!"]
        await press(pilot, *"xxx")  # as floats: one lane fits, and more than seven columns are left
        row = next(line for line in pane.text().splitlines() if line.startswith("%r2"))
        assert row.split() == ["%r2", "v0", "1.4013e-45!"]
        assert len(row) <= pane.scrollable_content_region.width + 1


async def test_search() -> None:
    async with debugger() as pilot:
        await press(pilot, "slash", *"st.global", "enter")
        assert pilot.app.query_one("#ptx", SourcePane).cursor == STORE_LINE
        await press(pilot, "slash", *"nowhere", "enter")
        assert "no line holds 'nowhere'" in message(pilot)


async def test_help_and_palette() -> None:
    async with debugger() as pilot:
        await press(pilot, "question_mark")
        assert type(pilot.app.screen).__name__ == "HelpScreen"
        await press(pilot, "escape", "ctrl+p")
        await pilot.press(*"restart")
        assert type(pilot.app.screen).__name__ == "Palette"
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1


async def test_formats_and_theme() -> None:
    async with debugger() as pilot:
        await press(pilot, "c", "x")
        assert "0000000a" in pilot.app.query_one(MemoryPane).text()
        await press(pilot, "T")
        assert pilot.app.theme == "textual-light"
        pane = pilot.app.query_one("#ptx", SourcePane)
        light = [segment.style for segment in pane.render_line(1)]
    async with debugger() as pilot:
        pilot.app.theme = "textual-light"  # from the start
        await press(pilot, "c", "x")
        assert [segment.style for segment in pilot.app.query_one("#ptx", SourcePane).render_line(1)] == light


async def test_interpreter_rows() -> None:
    async with debugger() as pilot:
        await press(pilot, *"sss", "i")
        text = pilot.app.query_one(RegisterPane).text().splitlines()
        at = next(i for i, line in enumerate(text) if line.startswith("%r2"))
        assert text[at + 1].split() == ["ref", "1", "2", "3", "4"]


def test_importing_the_interface_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, qdbg.ui.app; "
        "print([m for m in ('torch', 'transformers', 'numba', 'safetensors', 'cuda') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_block_of_four_warps(tmp_path: Path) -> None:
    launch = blocks.prepared(tmp_path, "leaving")
    (line,) = (i.line for i in launch.bound.kernel.body if i.opcode == "st")
    async with debugger(lambda report: blocks.started(launch)) as pilot:
        registers = pilot.app.query_one(RegisterPane)
        assert "warp 0 of 4" in str(registers.border_title)
        await press(pilot, "left_square_bracket")
        assert message(pilot) == "warp 3 lane 0"
        view = app(pilot).view
        assert view is not None
        assert view.thread == (96, 0, 0)
        assert "warp 3 of 4" in str(registers.border_title)
        assert "►lane 0" in registers.text()
        await press(pilot, "colon", *f"until {line}", "enter")
        header = str(pilot.app.query_one(StatusLine).render())
        assert "mask ffffffff ffffffff 00000000 00000000 no lane" in header
        drawn = pilot.app.query_one(StatusLine).render()
        masks = drawn.plain.index("mask ") + len("mask ")
        bold = [drawn.get_style_at_offset(pilot.app.console, masks + 9 * warp).bold for warp in range(4)]
        assert [bool(one) for one in bold] == [False, False, False, True]
        await press(pilot, "right_square_bracket", "right")
        assert "lane 1" in str(pilot.app.query_one(StatusLine).render())
        assert "lanes 0-31" in str(pilot.app.query_one(StatusLine).render())


async def test_borders_say_no_more_than_they_have_room_for(tmp_path: Path) -> None:
    launch = blocks.prepared(tmp_path, "exchange")
    async with debugger(lambda report: blocks.started(launch), size=SMALL) as pilot:
        registers, ptx = pilot.app.query_one(RegisterPane), pilot.app.query_one("#ptx", SourcePane)
        assert registers.border_title == "Warp 0 of 4 (auto)"
        assert registers.border_subtitle == "lanes 0-2 of 32  (4) folded"
        for _ in range(8):
            app(pilot).execute("8s")
            await until(pilot, lambda: not app(pilot).runner.busy)
            for pane in (registers, ptx):
                for text in (pane.border_title, pane.border_subtitle):
                    assert len(str(text)) <= pane.outer_size.width - 6
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert registers.border_title == "Registers of warp 0 of 4 (auto)"
