"""The `qdbg` process: streams that are closed, full or left by their reader, and ctrl+c at any time."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent.parent / "kernels"
QDBG = f"{sys.executable} -m qdbg"
RUN_DOT = f"run {KERNELS / 'dot.cu'} --engine interpreter"
#: Traps, which is exit status 3.
RUN_TRAP = f"run {KERNELS / 'faults' / 'out_of_bounds.cu'} --engine interpreter"

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(command: str) -> tuple[int, str]:
    """The exit status and stderr."""
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    return run.returncode, run.stderr


@pytest.mark.parametrize("command", [RUN_DOT, "doctor", "--help"])
@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_change_nothing(command: str, closed: str) -> None:
    assert shell(f"{QDBG} {command} {closed}") == (0, "")


@pytest.mark.parametrize(("command", "status"), [(RUN_DOT, 0), (RUN_TRAP, 3), ("--help", 0)])
def test_a_reader_that_leaves_does_not_change_the_status(command: str, status: int) -> None:
    code, err = shell(f"{QDBG} {command} | true; exit ${{PIPESTATUS[0]}}")
    assert code == status
    assert "Error" not in err


@needs_full
@pytest.mark.parametrize("command", [RUN_DOT, f"{RUN_DOT} --json", "--help"])
def test_full_standard_output_is_one_sentence(command: str) -> None:
    code, err = shell(f"{QDBG} {command} > /dev/full")
    assert (code, err) == (2, "qdbg: standard output: No space left on device; send it elsewhere\n")


@needs_full
def test_full_standard_error_does_not_change_the_status() -> None:
    assert shell(f"{QDBG} {RUN_TRAP} 2> /dev/full")[0] == 3


@needs_full
def test_full_output_file_is_named() -> None:
    code, err = shell(f"{QDBG} prompt {KERNELS / 'dot.cu'} -o /dev/full")
    assert code == 2
    assert re.fullmatch(r"qdbg: /dev/full: .*No space left on device; name another file\n", err)


#: Says when it is busy; the loop never ends by itself.
FOREVER = """
import sys
from qdbg.cli import main, process
if {early}:
    take = process.own
    process.own = lambda: (take(), print("ready", flush=True), [None for _ in iter(int, 1)])
else:
    from qdbg.runtime.interpreter import Interpreter
    def run(self, limit):
        print("ready", flush=True)
        while True:
            try:
                [None for _ in iter(int, 1)]
            finally:
                if {late}:
                    print("leaving", flush=True)
                    [None for _ in iter(int, 1)]
    Interpreter.run = run
sys.argv = ["qdbg", *{arguments!r}]
main()
"""


def start(early: bool = False, late: bool = False, command: str = RUN_DOT) -> subprocess.Popen[str]:
    code = FOREVER.format(early=early, late=late, arguments=command.split())
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)  # out of the print, into the loop
    return process


@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_before_and_while_a_command_runs(early: bool) -> None:
    with start(early=early, command=f"{RUN_DOT} --json") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert re.fullmatch(r"qdbg: interrupted.*\n", err)
    assert f"qdbg: {json.loads(out)['error']}\n" == err


def test_ctrl_c_ends_all_launches() -> None:
    with start(command=f"{RUN_DOT} --all") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(r"qdbg: interrupted.*\n", err)


def test_a_second_ctrl_c_does_not_wait_for_the_first() -> None:
    with start(late=True) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "leaving\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "qdbg: interrupted\n")


def test_ctrl_c_again_and_again() -> None:
    """However the signals fall, there is no traceback."""
    with start() as process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.003)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


@pytest.mark.parametrize(("status", "output"), [(0, "said tidied\n"), (130, "said ")])
def test_ctrl_c_does_not_wait_for_python_to_tidy_up(status: int, output: str) -> None:
    """That takes longer than all else between the key and the prompt; what was said is not lost."""
    script = (
        "import atexit, sys; from qdbg.cli import process; process.own(); atexit.register(print, 'tidied');"
        f"sys.stdout.write('said '); process.leave({status})"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (status, output)
