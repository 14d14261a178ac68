"""`qdbg KERNEL` where no screen can open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qdbg.cli import main

DOT = Path(__file__).parent.parent / "kernels" / "dot.cu"
REFUSED = (
    f"qdbg: the debugger needs a terminal as its stdin, stdout and stderr; without one: qdbg run {DOT}\n"
)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "</dev/null"])
def test_without_a_terminal_it_says_so(closed: str) -> None:
    program = f'exec "{sys.executable}" -c "from qdbg.cli import main; main()" "{DOT}" {closed}'
    done = subprocess.run(["sh", "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == REFUSED


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_with_stderr_elsewhere_nothing_could_be_seen() -> None:
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "qdbg", str(DOT)],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (2, REFUSED)


def test_help_offers_the_engines_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main([str(DOT), "--help"])
    out = capsys.readouterr().out
    assert "--engine sparse|stock " in out
    with pytest.raises(SystemExit, match=r"^2$"):
        main([str(DOT), "--engine", "interpreter"])
    assert "qdbg run" in capsys.readouterr().err


def test_nothing_heavy_loads_before_the_first_picture() -> None:
    """numpy takes as long as all else up to the first picture, torch a multiple."""
    heavy = ("numpy", "textual", "torch", "transformers", "numba")
    program = f"""
import sys
import qdbg.cli.group, qdbg.cli.debug, qdbg.ui
print([name for name in {heavy!r} if name in sys.modules])
import qdbg.ui.app
print([name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n['textual']\n"
