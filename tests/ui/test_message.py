"""The message line: a sentence whole, or visibly cut."""

from __future__ import annotations

from pathlib import Path

import blocks
from driver import app, debugger, message, press, until

from qdbg.ui.message import LINES, MessageLine


async def test_what_does_not_fit_is_cut_visibly(tmp_path: Path) -> None:
    launch = blocks.prepared(tmp_path, "exchange")
    async with debugger(lambda report: blocks.started(launch), size=(60, 16)) as pilot:
        await press(pilot, *"sssssss")
        app(pilot).execute("print %r1")
        await until(pilot, lambda: message(pilot).startswith("%r1"))
        await pilot.pause()
        lines = message(pilot).splitlines()
        assert pilot.app.query_one(MessageLine).size.height == len(lines) == LINES
        assert all(len(line) <= 58 for line in lines)
        assert lines[-1].endswith(" …")
        whole = app(pilot).session.describe("%r1")  # type: ignore[union-attr]
        shown = " ".join(lines).removesuffix(" …").split()
        assert whole.split()[: len(shown)] == shown
        await pilot.resize_terminal(160, 50)
        await pilot.pause()
        assert len(message(pilot)) > 2 * len("".join(lines))
        app(pilot).execute("lane 3")
        await until(pilot, lambda: message(pilot) == "warp 0 lane 3")
