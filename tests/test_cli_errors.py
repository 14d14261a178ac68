"""Bad input: every command line here must fail with its status, one sentence, and no traceback."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qdbg.cli import main

ADD = """\
__global__ void add(const int *a, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = a[i] + 1;
}
"""
LAUNCH = "// qdbg: launch add<<<1, 4>>>(a = i32[1, 2, 3], out = i32[3], n = 3)\n"

FAULTS = Path(__file__).parent.parent / "kernels" / "faults"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def qdbg(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in `tmp_path`; returns (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(list(arguments))
        output = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, output.out, output.err

    return run


def assert_fails(result: tuple[int, str, str], status: int, *mentions: str) -> None:
    """The status is right, and stderr is one line that names every one of `mentions`."""
    code, _, err = result
    assert code == status, err
    assert re.fullmatch(r"qdbg: .+\n", err), err
    assert "Traceback" not in err
    assert "internal error" not in err
    for mention in mentions:
        assert mention in err


@pytest.fixture
def add(tmp_path: Path) -> Path:
    """A kernel with a launch comment on line 1."""
    path = tmp_path / "add.cu"
    path.write_text(LAUNCH + ADD)
    return path


@pytest.mark.parametrize("command", [["run"], ["compile"], ["prompt", "-o", "p.json"], []])
def test_missing_file(qdbg: Run, command: list[str]) -> None:
    """The wording is the same everywhere."""
    head, rest = command[:1], command[1:]
    assert qdbg(*head, "nowhere.cu", *rest) == (2, "", "qdbg: nowhere.cu: there is no such file\n")


def test_missing_tokens(qdbg: Run, add: Path) -> None:
    assert qdbg("decode", "add.cu", "no.json") == (2, "", "qdbg: no.json: there is no such file\n")


@pytest.mark.parametrize("command", [["run"], ["compile"], []])
def test_directory(qdbg: Run, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "folder.cu").mkdir()
    assert_fails(qdbg(*command, "folder.cu"), 2, "folder.cu", "directory")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("command", [["run"], ["compile"], ["verify"], []])
def test_a_pipe_would_never_end(qdbg: Run, tmp_path: Path, command: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe.cu")
    assert_fails(qdbg(*command, "pipe.cu"), 2, "pipe.cu", "device or a pipe")


@pytest.mark.parametrize("name", ["empty.cu", "empty.ptx"])
def test_empty_file(qdbg: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert_fails(qdbg("run", name), 2, name)


def test_binary_file(qdbg: Run, tmp_path: Path) -> None:
    (tmp_path / "noise.cu").write_bytes(bytes(range(256)) * 8)
    assert_fails(qdbg("run", "noise.cu"), 2, "noise.cu")


def test_text_of_another_encoding_with_all_launches(qdbg: Run, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes("// café\n".encode("latin-1"))
    result = qdbg("run", str(path), "--all", "--engine", "interpreter")
    assert_fails(result, 2, "k.cu:1: this is not UTF-8 text")


def test_unknown_suffix(qdbg: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    assert_fails(qdbg("run", "notes.txt"), 2, "notes.txt", ".cu")


def test_two_kernels_and_no_choice(qdbg: Run, tmp_path: Path) -> None:
    (tmp_path / "two.cu").write_text("__global__ void one() {}\n__global__ void two() {}\n")
    assert_fails(qdbg("run", "two.cu"), 2, "two.cu", "one", "two", "--kernel")
    assert_fails(qdbg("run", "two.cu", "--kernel", "three"), 2, "three", "one", "two")


def test_cuda_error_names_file_and_line(qdbg: Run, tmp_path: Path) -> None:
    """The compiler's own message is shown, which may take several lines; `b` stands in line 6."""
    (tmp_path / "broken.cu").write_text(LAUNCH + ADD.replace("a[i] + 1", "b[i] + 1"))
    code, _, err = qdbg("run", "broken.cu")
    assert code == 2
    assert "broken.cu(6)" in err or "broken.cu:6" in err
    assert '"b"' in err or "'b'" in err
    assert "Traceback" not in err


def test_ptx_cut_in_half(qdbg: Run, tmp_path: Path, add: Path) -> None:
    code, ptx, _ = qdbg("compile", "add.cu", "--emit", "ptx")
    assert code == 0
    half = ptx[: ptx.index("ld.global")]
    (tmp_path / "half.ptx").write_text(half)
    assert_fails(qdbg("run", "half.ptx"), 2, "half.ptx:")


@pytest.mark.parametrize(
    ("argument", "mentions"),
    [
        ("n=3.5", ["n"]),
        ("n=99999999999", ["n", "range"]),
        ("n=i32[1, 2]", ["n"]),
        ("a=i32[1, 99999999999]", ["a", "range"]),
        ("a=i33[1]", ["a", "i33"]),
        ("a=i32[", ["a"]),
        ("m=4", ["m", "add"]),
        ("a=i32[] = @gone.npy", ["a", "gone.npy"]),
        ("n", ["NAME=VALUE"]),
    ],
)
def test_bad_argument(qdbg: Run, add: Path, argument: str, mentions: list[str]) -> None:
    assert_fails(qdbg("run", "add.cu", "--engine", "interpreter", "--arg", argument), 2, *mentions)


@pytest.mark.parametrize(
    ("launch", "mentions"),
    [
        ("add<<<1, 4>>>(a = i32[3], out = i32[3])", ["add.cu:1", "n"]),
        ("add<<<1, 4>>>(a = i32[3], out = i32[3], n = 3, more = 1)", ["add.cu:1", "more"]),
        ("add<<<1, 4>>>(a = 1.5, out = i32[3], n = 3)", ["add.cu:1", "a"]),
        ("add<<<1, 4>>>(a = i32[3], out = i32[3], n = 3", ["add.cu:1"]),
        ("add<<<1>>>(a = i32[3], out = i32[3], n = 3)", ["add.cu:1"]),
        ("add<<<0, 4>>>(a = i32[3], out = i32[3], n = 3)", ["add.cu:1", "0"]),
        ("sub<<<1, 4>>>()", ["add.cu:1", "sub", "add"]),
    ],
)
def test_bad_launch_comment(qdbg: Run, add: Path, launch: str, mentions: list[str]) -> None:
    add.write_text(f"// qdbg: launch {launch}\n{ADD}")
    assert_fails(qdbg("run", "add.cu", "--engine", "interpreter"), 2, *mentions)


@pytest.mark.parametrize(
    "options", [["--grid", "x"], ["--block", "1,2,3,4"], ["--launch", "7"], ["--opt", "2"]]
)
def test_bad_launch_option(qdbg: Run, add: Path, options: list[str]) -> None:
    assert_fails(qdbg("run", "add.cu", "--engine", "interpreter", *options), 2, options[0])


def test_no_launch_says_how_to_write_one(qdbg: Run, tmp_path: Path) -> None:
    (tmp_path / "bare.cu").write_text(ADD)
    assert_fails(qdbg("run", "bare.cu"), 2, "bare.cu", "qdbg: launch add<<<")


def test_array_larger_than_the_memory(qdbg: Run, add: Path) -> None:
    assert_fails(qdbg("run", "add.cu", "--arg", "a=i32[5000]"), 2, "a", "20000", "16384")


def test_block_larger_than_the_machine(qdbg: Run, add: Path) -> None:
    assert_fails(qdbg("run", "add.cu", "--block", "129"), 2, "129", "128")


def test_unsupported_instruction_traps_when_it_is_executed(qdbg: Run, tmp_path: Path) -> None:
    source = "// qdbg: launch k<<<1, 4>>>(x = f64[4], n = {n})\n__global__ void k(double *x, int n)\n"
    source += "{{ if (n) x[threadIdx.x] *= 2.0; }}\n"
    (tmp_path / "k.cu").write_text(source.format(n=1))
    assert_fails(qdbg("run", "k.cu", "--engine", "emulator"), 3, "f64", "line")
    (tmp_path / "k.cu").write_text(source.format(n=0))
    assert qdbg("run", "k.cu", "--engine", "emulator")[0] == 0


def test_a_special_register_that_is_lacking_is_named(qdbg: Run, tmp_path: Path) -> None:
    source = "// qdbg: launch k<<<1, 4>>>(x = u64[4])\n"
    source += "__global__ void k(unsigned long long *x) { x[threadIdx.x] = clock64(); }\n"
    (tmp_path / "k.cu").write_text(source)
    assert_fails(
        qdbg("run", "k.cu", "--engine", "emulator"), 3, "k.cu:2: ", "lacks the special register `%clock64`"
    )


def test_trap_names_line_lane_and_reason(qdbg: Run) -> None:
    """The store of out_of_bounds.cu; thread 5 is the first whose word does not exist."""
    kernel = FAULTS / "out_of_bounds.cu"
    text = kernel.read_text().splitlines()
    line = next(number for number, code in enumerate(text, 1) if "out[i] =" in code)
    machine = qdbg("run", str(kernel), "--engine", "emulator")
    assert_fails(machine, 3, f"out_of_bounds.cu:{line}:", "lane 5", "out of bounds", "st.global.u32")
    alone = qdbg("run", str(kernel), "--engine", "interpreter")
    assert_fails(alone, 3, "thread (5, 0, 0)", "outside every array", "st.global.u32")


def test_warps_at_two_barriers_are_the_machines_limit(qdbg: Run, tmp_path: Path) -> None:
    """They may meet: the machine says that it is the one who cannot do it, and what can."""
    source = "// qdbg: launch k<<<1, 64>>>(a = i32[64])\n__global__ void k(int *a)\n{\n"
    source += "if (threadIdx.x < 32) { a[0]++; __syncthreads(); }\nelse { a[1]--; __syncthreads(); }\n}\n"
    (tmp_path / "k.cu").write_text(source)
    machine = qdbg("run", "k.cu", "--engine", "emulator")
    assert_fails(machine, 3, "k.cu:4: ", "the machine needs all threads", "--engine interpreter")
    assert qdbg("run", "k.cu", "--engine", "interpreter")[0] == 0


@pytest.mark.parametrize("engine", ["emulator", "interpreter"])
def test_infinite_loop_ends_at_the_limit(qdbg: Run, engine: str) -> None:
    assert_fails(
        qdbg("run", str(FAULTS / "forever.cu"), "--engine", engine, "--max-passes", "500"),
        3,
        "500",
        "--max-passes",
    )


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        ((), ["kernel"]),
        (("run",), ["KERNEL"]),
        (("run", "add.cu", "--engine", "quantum"), ["quantum", "sparse", "stock"]),
        (("run", "add.cu", "--nonsense"), ["--nonsense"]),
        (("run", "add.cu", "--max-passes", "0"), ["--max-passes"]),
        (("compile", "add.cu", "--emit", "sass"), ["sass"]),
        (("build", "--target", "giga"), ["giga", "nano"]),
        (("--nonsense",), ["--nonsense"]),
    ],
)
def test_wrong_usage(qdbg: Run, add: Path, arguments: tuple[str, ...], mentions: list[str]) -> None:
    code, _, err = qdbg(*arguments)
    assert code == 2
    assert "Traceback" not in err
    for mention in mentions:
        assert mention in err.splitlines()[-1]


def test_json_failures_are_objects_too(qdbg: Run, add: Path) -> None:
    code, out, err = qdbg("run", "gone.cu", "--json")
    assert code == 2
    assert f"qdbg: {json.loads(out)['error']}\n" == err


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"new_ids": 3}',
        '{"new_ids": ["a"]}',
        '{"new_ids": [99999999]}',
        '{"new_ids": [-1]}',
    ],
    ids=range(8),
)
def test_decode_refuses_what_is_no_generation(qdbg: Run, add: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "tokens.json").write_text(content)
    assert_fails(qdbg("decode", "add.cu", "tokens.json"), 2, "tokens.json")


def test_unwritable_output(qdbg: Run, add: Path, tmp_path: Path) -> None:
    assert_fails(qdbg("build", "-o", str(add / "inside")), 2, "add.cu")


def test_build_spares_a_folder_of_someone_elses(qdbg: Run, add: Path) -> None:
    assert_fails(qdbg("build", "-o", "."), 2, "no checkpoint", "-o")


def test_unwritable_cache(qdbg: Run, add: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDBG_CACHE", str(add / "cache"))
    assert_fails(qdbg("run", "add.cu"), 2, "cache", "QDBG_CACHE")
    failed = qdbg("doctor", "--json")
    assert_fails(failed, 1, "cache", "QDBG_CACHE")
    report = json.loads(failed[1])
    assert (report["ok"], f"qdbg: {report['error']}\n") == (False, failed[2])


@pytest.mark.skipif(sys.platform == "win32", reason="a program there is not a script")
@pytest.mark.parametrize("content", ["#!/bin/sh\nexit 1\n", "no program"], ids=["fails", "cannot start"])
def test_doctor_needs_one_compiler_that_works(
    qdbg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """NVRTC is here, so a compiler on PATH that does not run is only worth knowing."""
    broken = tmp_path / "clang"
    broken.write_text(content)
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = qdbg("doctor", "--json")
    (found,) = (check for check in json.loads(out)["checks"] if check["name"] == "clang")
    assert (code, found["ok"]) == (0, None)
    assert "does not run" in found["detail"]
