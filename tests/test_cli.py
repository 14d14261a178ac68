"""The command line where nothing goes wrong: contracts that scripts rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qdbg import __version__
from qdbg.cli import main
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared, prepare

KERNELS = Path(__file__).parent.parent / "kernels"
DOT = KERNELS / "dot.cu"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def qdbg(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line; returns (status, stdout)."""

    def run(*arguments: str | Path) -> tuple[int, str]:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, capsys.readouterr().out

    return run


def generate(prepared: Prepared) -> list[int]:
    """The launch's tokens, from the architecture's emulator."""
    engine = Emulator(prepared.image.config)
    vocabulary = prepared.image.vocabulary
    ids = [engine.prefill(prepared.image.ids)]
    while vocabulary.token(ids[-1]).kind is not Kind.END:
        ids.append(engine.step())
    return ids


@pytest.mark.parametrize("engine", ["emulator", "interpreter"])
def test_run_json_has_every_promised_key(qdbg: Run, engine: str) -> None:
    status, out = qdbg("run", DOT, "--engine", engine, "--json")
    report = json.loads(out)
    assert status == 0
    printed = {"printed"} if engine == "interpreter" else set()
    assert report.keys() == printed | {
        "kernel", "engine", "checkpoint_sha256", "grid", "block", "lanes", "threads", "layers", "hidden",
        "prompt_tokens", "tokens", "passes", "ptx_instructions", "seconds", "exact", "mismatches",
        "expected", "trap", "warnings", "outputs",
    }  # fmt: skip
    assert (report["kernel"], report["engine"]) == ("dot", engine)
    assert (report["grid"], report["block"], report["lanes"]) == ([1, 1, 1], [4, 1, 1], 32)
    assert report["threads"] == (None if engine == "interpreter" else 128)
    assert report["outputs"] == {"out": {"dtype": "i32", "shape": [1], "data": [32]}}
    assert report["exact"] is (None if engine == "interpreter" else True)
    assert (report["expected"], report["mismatches"], report["trap"]) == (True, [], None)
    assert report["warnings"] == []


def test_a_trapped_launch_is_exact_as_far_as_it_came(qdbg: Run) -> None:
    status, out = qdbg("run", KERNELS / "faults" / "out_of_bounds.cu", "--engine", "emulator")
    assert status == 3
    assert out.endswith(", exact up to the trap\n")
    assert qdbg("run", DOT, "--engine", "emulator")[1].endswith(", exact, as expected\n")


UNORDERED = """// qdbg: launch k<<<1, 32>>>(out = i32[32])
__global__ void k(int *out)
{
    __shared__ int tile[32];
    tile[threadIdx.x / 2] = 7;
    out[threadIdx.x] = tile[31 - threadIdx.x];
}
"""


@pytest.mark.parametrize("engine", ["emulator", "interpreter"])
def test_warnings_are_on_stderr_and_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    (tmp_path / "k.cu").write_text(UNORDERED)
    arguments = ["run", str(tmp_path / "k.cu"), "--engine", engine]
    with pytest.raises(SystemExit) as exit_:
        main([*arguments, "--json"])
    assert exit_.value.code == 0
    out, err = capsys.readouterr()
    (warning,) = json.loads(out)["warnings"]
    assert (warning["kind"], warning["block"], warning["thread"]) == (
        "uninitialised shared memory", [0, 0, 0], [0, 0, 0],
    )  # fmt: skip
    assert "k.cu:6: thread (0, 0, 0) of block (0, 0, 0) reads shared address 0x7c" in warning["message"]
    assert f"(PTX line {warning['line']})" in warning["message"]
    assert err == f"qdbg: warning: {warning['message']}\n"
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "k.cu"), "--engine", "interpreter", "--all"])
    assert f"qdbg: warning: launch 1: {warning['message']}\n" in capsys.readouterr().err


def test_races_are_searched_for_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(UNORDERED)
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(tmp_path / "k.cu"), "--engine", "interpreter", "--races"])
    assert exit_.value.code == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert (
        "k.cu:5: thread (1, 0, 0) of block (0, 0, 0) writes shared address 0x0, which thread (0, 0, 0)"
        in lines[0]
    )
    assert all(line.startswith("qdbg: warning: ") for line in lines)


def test_launch_options_replace_what_the_file_says(qdbg: Run) -> None:
    """(1, 2, 3) . (7, 8, 9) = 50, with two threads; the changed launch keeps no expectation."""
    arguments = ["run", DOT, "--block", "2", "--arg", "b=i32[7, 8, 9]", "--engine", "interpreter", "--json"]
    status, out = qdbg(*arguments)
    report = json.loads(out)
    assert (status, report["block"], report["expected"]) == (0, [2, 1, 1], None)
    assert report["outputs"]["out"]["data"] == [50]


def test_second_launch_of_a_file(qdbg: Run) -> None:
    """Its expectation is -135."""
    status, out = qdbg("run", DOT, "--launch", "2", "--engine", "interpreter", "--json")
    report = json.loads(out)
    assert (status, report["expected"], report["outputs"]["out"]["data"]) == (0, True, [-135])


def test_a_wrong_expectation_is_a_mismatch(qdbg: Run, tmp_path: Path) -> None:
    kernel = tmp_path / "dot.cu"
    kernel.write_text(DOT.read_text().replace("i32[32]", "i32[33]", 1).replace("partial[32]", "partial[33]"))
    for engine in ("emulator", "interpreter"):
        status, out = qdbg("run", kernel, "--engine", engine, "--json")
        report = json.loads(out)
        assert (status, report["expected"]) == (1, False)
        assert "out[0] is 32, expected 33" in report["error"]


def test_run_for_a_person_shows_arrays_and_figures(qdbg: Run) -> None:
    status, out = qdbg("run", DOT, "--engine", "emulator")
    assert status == 0
    assert out.splitlines()[0] == "out = i32[32]"
    assert "exact, as expected" in out


def test_compile_emits_each_stage(qdbg: Run) -> None:
    assert ".visible .entry" in qdbg("compile", DOT, "--emit", "ptx")[1]
    machine = qdbg("compile", DOT)[1]
    assert "mad.lo.s32" in machine
    assert "halt" in machine
    listing = qdbg("compile", DOT, "--emit", "prompt")[1]
    assert "<boot>" in listing.splitlines()[0]
    assert "<threads 0x4>" in listing


def test_decode_reads_the_results_out_of_the_tokens(qdbg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"new_ids": generate(prepare(DOT, LaunchOptions())), "ended": True}))
    status, out = qdbg("decode", DOT, file)
    assert status == 0
    assert json.loads(out) == {"out": {"dtype": "i32", "shape": [1], "data": [32]}}


def test_decode_says_that_tokens_belong_to_another_launch(qdbg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    other = prepare(KERNELS / "elementwise" / "saxpy.cu", LaunchOptions())
    file.write_text(json.dumps({"new_ids": generate(other)}))
    assert qdbg("decode", DOT, file)[0] == 1


def test_decode_of_a_generation_that_was_cut_off(qdbg: Run, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"new_ids": generate(prepare(DOT, LaunchOptions()))[:-5]}))
    assert qdbg("decode", DOT, file)[0] == 3


def test_prompts_differ_only_in_the_argument_that_was_changed() -> None:
    """One array element is another: the prompts have the same length and differ in one token."""
    one = prepare(DOT, LaunchOptions()).image.ids
    other = prepare(DOT, LaunchOptions(arguments=(("a", "i32[1, 2, 4]"),))).image.ids
    assert len(one) == len(other)
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


@pytest.mark.parametrize("arguments", [("help",), ("help", "run")])
def test_help_is_a_command_too(qdbg: Run, arguments: tuple[str, ...]) -> None:
    _, wanted = qdbg(*arguments[1:], "--help")
    assert "Usage: qdbg" in wanted
    assert qdbg(*arguments) == (0, wanted)


def test_help_for_a_command_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "nope"])
    assert ended.value.code == 2
    assert tuple(capsys.readouterr()) == ("", "qdbg: there is no command 'nope': qdbg help lists them\n")


def test_help_has_room_for_every_summary(qdbg: Run) -> None:
    assert "..." not in qdbg("--help")[1].partition("Commands:")[2]


def test_version_is_printed_at_once() -> None:
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-m", "qdbg", "--version"], capture_output=True, text=True, check=True
    )
    assert __version__ in run.stdout
    assert time.perf_counter() - start < 1.0  # 0.1 s on an idle machine


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = ("numpy", "torch", "textual", "transformers")
    code = f"import sys, qdbg.cli; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_ctrl_c_ends_with_a_sentence() -> None:
    command = [
        sys.executable,
        "-m",
        "qdbg",
        "run",
        str(KERNELS / "faults" / "forever.cu"),
        "--engine",
        "emulator",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.startswith("qdbg: interrupted")
    assert err.count("\n") == 1
