"""Draws README's screenshots: dot.cu stopped at a breakpoint inside its loop, on two sizes of terminal.

    python tests/make_screenshots.py [--engine emulator]

Run it after a change of the screen.  The app runs without a terminal and exports what it shows.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Static

from qdbg.cli.debug import opener
from qdbg.cli.failure import describe
from qdbg.cli.options import DEFAULT_ENGINE, DEFAULT_MAX_PASSES
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.ui.app import DebuggerApp

ROOT = Path(__file__).parent.parent
KERNEL = ROOT / "kernels" / "dot.cu"
SIZES = ((160, 50), (80, 24))
#: Ten elements for four threads: two lanes take the loop three times, two take it twice.
LAUNCH = LaunchOptions(number=2)
#: The loop's sum, the third time: half of the lanes have left.
COMMANDS = ("break cu:23", "continue", "continue", "continue")
#: Width of a character in Textual's SVG.
CELL = 12.2
#: Seconds; the sparse engine compiles itself when it is first used.
PATIENCE = 300


async def draw(size: tuple[int, int], engine: str) -> str:
    """The screen as SVG."""
    lines = tuple(KERNEL.read_text().splitlines())
    open_session = opener(KERNEL, LAUNCH, engine, DEFAULT_MAX_PASSES)
    app = DebuggerApp(open_session, KERNEL.name, lines, "cuda", describe)
    async with app.run_test(size=size) as pilot:
        async with asyncio.timeout(PATIENCE):
            await _until(pilot, lambda: app.view is not None)
            for command in COMMANDS:
                app.execute(command)
                await pilot.pause(0.2)
                await _until(pilot, lambda: not app.runner.busy)
        await pilot.pause(0.2)
        _sound(app)
        picture = app.export_screenshot(title=f"qdbg {KERNEL.name}", simplify=True)
        app.runner.close()
    return re.sub(r'x="([\d.]+)"([^>]*)textLength="([\d.]+)"([^>]*)>((?:&#160;)+)(?=[^<])', _indent, picture)


async def _until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Wait for the session's thread."""
    while not condition():
        _sound(pilot.app)
        await pilot.pause(0.05)


def _sound(app: App[int]) -> None:
    """End with a sentence if the screen shows one about something that went wrong."""
    assert isinstance(app, DebuggerApp)
    if app.error is not None:
        raise SystemExit(f"make_screenshots: {describe(app.error)[0]}")
    said = app.screen_stack[0].query_one("#message", Static)
    if said.has_class("bad") and str(said.content):
        raise SystemExit(f"make_screenshots: {said.content}")


def _indent(text: re.Match[str]) -> str:
    """Moves a text by its leading spaces, which not every renderer draws."""
    spaces = text[5].count("&#160;")
    x, length = float(text[1]) + spaces * CELL, float(text[3]) - spaces * CELL
    return f'x="{x:.1f}"{text[2]}textLength="{length:.1f}"{text[4]}>'


def main() -> None:
    """Write docs/debugger-WxH.svg."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default=DEFAULT_ENGINE)
    engine = parser.parse_args().engine
    for width, height in SIZES:
        picture = asyncio.run(draw((width, height), engine))
        (ROOT / "docs" / f"debugger-{width}x{height}.svg").write_text(picture)


if __name__ == "__main__":
    main()
