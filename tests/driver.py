"""Drives the app without a terminal, on the hand-written launch of `fakes` or any other session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import fakes
from textual.pilot import Pilot
from textual.widgets import Static

from qdbg.cli.failure import describe
from qdbg.runtime.session import Session
from qdbg.ui.app import DebuggerApp
from qdbg.ui.runner import Report

Debugger = Pilot[int]
WIDE, SMALL = (160, 50), (80, 24)


@asynccontextmanager
async def debugger(
    open_session: Callable[[Report], Session] = lambda report: fakes.session(),
    size: tuple[int, int] = WIDE,
    wait: bool = True,
) -> AsyncIterator[Debugger]:
    """The app on a terminal of that size, at its first stop."""
    app = DebuggerApp(open_session, "countdown.cu", fakes.CUDA, "cuda", describe)
    async with app.run_test(size=size) as pilot:
        if wait:
            await until(pilot, lambda: app.view is not None)
            await pilot.pause()
        yield pilot
        app.runner.close()
        assert app.runner.join(5)


async def until(pilot: Debugger, condition: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about."""
    for _ in range(200):
        await pilot.pause(0.01)
        if condition():
            return
    raise AssertionError(f"it never happened; the screen says {message(pilot)!r}")


async def press(pilot: Debugger, *keys: str) -> None:
    """Press keys, each after the machine has stopped again."""
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: not app(pilot).runner.busy)
        await pilot.pause()


def app(pilot: Debugger) -> DebuggerApp:
    assert isinstance(pilot.app, DebuggerApp)
    return pilot.app


def message(pilot: Debugger) -> str:
    return str(pilot.app.screen_stack[0].query_one("#message", Static).content)


def shown_line(pilot: Debugger) -> int | None:
    view = app(pilot).view
    assert view is not None
    return view.line


def visible(pilot: Debugger) -> set[str]:
    names = ("ptx", "cuda", "registers", "memory", "tokens")
    return {n for n in names if pilot.app.query_one(f"#{n}").region.area > 0}
