"""What is drawn before Textual is there."""

from __future__ import annotations

import io
import re
import sys

import pytest

from qdbg.ui.curtain import curtain

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is drawn there")


class Terminal(io.StringIO):
    """A terminal of 20 columns and 10 rows."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 99


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    import os

    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((20, 10)))
    return Terminal()


def texts(terminal: Terminal) -> dict[tuple[int, int], str]:
    """(row, column) -> what was written from there on, without styles."""
    plain = re.sub(r"\x1b\[[0-9]*m|\x1b\[\?[0-9]+[hl]|\x1b\[2J", "", terminal.getvalue())
    found = re.findall(r"\x1b\[(\d+);(\d+)H([^\x1b]*)", plain)
    return {(int(row), int(column)): text for row, column, text in found}


def test_as_much_of_the_source_as_fits(terminal: Terminal) -> None:
    lines = ("int a;", "\tint b;", "x" * 50, "\x1b[31mred\x07", *["more"] * 96)
    with curtain("dot.cu", lines, terminal):
        pass
    assert texts(terminal) == {
        (1, 2): "dot.cu",
        (4, 4): "  1 int a;",
        (5, 4): "  2     int b;",
        (6, 4): "  3 " + "x" * 13,
    }


def test_a_failure_gives_the_terminal_back(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), curtain("dot.cu", ("int a;",), terminal):
        raise KeyboardInterrupt
    modes = re.findall(r"\x1b\[\?([0-9]+)([hl])", terminal.getvalue())
    assert dict(modes[:3]) == {"1049": "h", "7": "l", "25": "l"}
    assert dict(modes[3:]) == {"1049": "l", "7": "h", "25": "h"}


def test_nothing_is_drawn_on_a_file() -> None:
    file = io.StringIO()
    with curtain("dot.cu", ("int a;",), file), curtain("dot.cu", (), None):
        pass
    assert file.getvalue() == ""
