"""The very first picture: the kernel's source, drawn by hand while Textual loads.

Loading Textual and laying out its first screen takes longer than a person likes to look at nothing.  What
is drawn here stands where the debugger will draw it, on the screen that the debugger will take over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

#: The other screen of the terminal, where lines are cut at the right edge, and back.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[2J\x1b[?7l\x1b[?25l", "\x1b[?25h\x1b[?7h\x1b[?1049l"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
#: Row and column of the first source line's gutter; rows below the source.
_TOP, _LEFT, _BELOW = 4, 4, 4


@contextmanager
def curtain(title: str, lines: tuple[str, ...], terminal: TextIO | None) -> Iterator[None]:
    """Show the source until the block ends, and longer; should it fail, the terminal is as it was before.

    lines: may hold anything; of control characters only tabs are shown.  terminal: nothing is drawn on what
    is none, or on one of Windows, which may not know the sequences.
    """
    if terminal is None or not terminal.isatty() or sys.platform == "win32":
        yield
        return
    terminal.write(_ENTER + "".join(_picture(title, lines, *_size(terminal))))
    terminal.flush()
    try:
        yield
    except BaseException:
        terminal.write(_LEAVE)
        terminal.flush()
        raise


def _size(terminal: TextIO) -> os.terminal_size:
    """Columns and rows; none where nobody knows."""
    try:
        return os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError):
        return os.terminal_size((0, 0))


def _picture(title: str, lines: tuple[str, ...], columns: int, rows: int) -> Iterator[str]:
    """The title and as much of the source as fits."""
    digits = len(str(len(lines)))
    yield _at(1, 2, _BOLD + _shown(title, columns) + _PLAIN)
    for y, line in enumerate(lines[: max(rows - _TOP - _BELOW + 1, 0)]):
        number = f"{_DIM}{y + 1:>{digits}}{_PLAIN} "
        yield _at(_TOP + y, _LEFT, number + _shown(line, columns - _LEFT - digits))


def _at(row: int, column: int, text: str) -> str:
    return f"\x1b[{row};{column}H{text}"


def _shown(line: str, columns: int) -> str:
    """The part of a line that fits, without anything that a terminal obeys."""
    width = max(columns, 0)
    cut = line[:width].expandtabs(4)[:width]
    return "".join(c if c.isprintable() else " " for c in cut)
