"""What a person is told while a command works."""

from __future__ import annotations

import io
import sys
import time

import pytest

from qdbg.cli.progress import progress_line, share


def test_a_bar_and_the_time_left() -> None:
    """A quarter in two seconds leaves six."""
    assert share(1, 4, 2.0) == "██████░░░░░░░░░░░░░░░░░░  25%, about 6 s left"
    assert share(4, 4, 8.0) == "████████████████████████ 100%, about 0 s left"
    assert share(0, 4, 2.0) == "░░░░░░░░░░░░░░░░░░░░░░░░   0%"


def test_a_count_where_nobody_knows_the_total() -> None:
    assert share(12_345, 0, 2.0) == "12,345"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_appears_after_a_while_and_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time left counts from the first report, whatever was done before."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_line("work") as show:
        now += 50
        show(0, 10)
        now += 0.1
        show(1, 10)
        assert terminal.getvalue() == ""
        now += 3.9
        show(5, 10)
        assert terminal.getvalue() == f"\r\x1b[Kwork {'█' * 12}{'░' * 12}  50%, about 4 s left"
    assert terminal.getvalue().endswith("\r\x1b[K")
