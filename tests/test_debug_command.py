"""`qdbg KERNEL` where no screen can open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOT = Path(__file__).parent.parent / "kernels" / "dot.cu"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "</dev/null"])
def test_without_a_terminal_it_says_so(closed: str) -> None:
    program = f'exec "{sys.executable}" -c "from qdbg.cli import main; main()" "{DOT}" {closed}'
    done = subprocess.run(["sh", "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"qdbg: the debugger needs a terminal; without one: qdbg run {DOT}\n"
