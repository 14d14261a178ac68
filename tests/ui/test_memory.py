"""The memory pane: how many words a row holds, and the way to a place."""

from __future__ import annotations

from pathlib import Path

import blocks
import pytest
from driver import SMALL, WIDE, Debugger, app, debugger, message, press, visible

from qdbg.ui.memory import MemoryPane


def rows_on_screen(pilot: Debugger) -> list[str]:
    pane = pilot.app.query_one(MemoryPane)
    first = round(pane.scroll_y)
    return pane.text().splitlines()[first : first + pane.scrollable_content_region.height]


@pytest.mark.parametrize("size", [WIDE, SMALL])
async def test_the_way_to_a_place(tmp_path: Path, size: tuple[int, int]) -> None:
    """128 words of `out`, then as many of shared memory."""
    launch = blocks.prepared(tmp_path, "exchange")
    async with debugger(lambda report: blocks.started(launch), size=size) as pilot:
        await press(pilot, "colon", *"x sha")
        await pilot.pause()
        await press(pilot, "tab", "enter")  # completed
        await pilot.pause()
        assert "memory" in visible(pilot)
        assert pilot.app.focused is pilot.app.query_one(MemoryPane)
        assert any(row.startswith("shared") for row in rows_on_screen(pilot))
        if size == SMALL:
            assert rows_on_screen(pilot)[0].startswith("shared")
        await press(pilot, "colon", *"memory out[127]", "enter")
        await pilot.pause()
        view = app(pilot).view
        assert view is not None
        address = view.memory[0].address + 4 * 127
        assert message(pilot) == f"out[127]: out at {address:#x}"
        pane = pilot.app.query_one(MemoryPane)
        marked = [y for y in range(pane.rows()) if any(style == "focus" for _, style in pane.row(y))]
        assert len(marked) == 1
        here, behind = pane.text().splitlines()[marked[0] : marked[0] + 2]
        assert here.startswith("out")
        assert behind.startswith("shared")  # it is the last word of `out`
        await press(pilot, "colon", *"x out[128]", "enter")
        assert "out has no element 128" in message(pilot)


@pytest.mark.parametrize("columns", range(120, 240, 20))
async def test_a_row_wastes_less_than_a_third(tmp_path: Path, columns: int) -> None:
    launch = blocks.prepared(tmp_path, "exchange")
    async with debugger(lambda report: blocks.started(launch), size=(columns, 50)) as pilot:
        pane = pilot.app.query_one(MemoryPane)
        for _ in range(2):
            row = max(len(line) for line in pane.text().splitlines())
            width = pane.scrollable_content_region.width
            assert 2 / 3 * width < row <= width + 1  # each cell ends with a space
            await press(pilot, "x")
