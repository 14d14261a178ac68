"""`qdbg verify`: what it finds, where, and that nothing ends it early."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from machines import SMALL

from qdbg.cli import main
from qdbg.cli.failure import Exit, Failure, worst
from qdbg.cli.verify import Checker, failed, run_suite
from qdbg.compiler.machine.vocabulary import Kind, Token, Vocabulary
from qdbg.runtime.engine import Progress, Wrong
from qdbg.runtime.sparse.engine import SparseEngine
from qdbg.runtime.suite import ENDLESS_PASSES, Case, Verifier, cases, check, propose
from qdbg.runtime.verified import Verified
from qdbg.runtime.workers import Tell

#: Thread i computes i * i + 100: lane 3's result, 109, is in one token of the launch.
SQUARES = """// qdbg: launch squares<<<1, 5>>>(out = u32[5])
// qdbg: expect out = u32[100, 101, 104, 109, 116]
.version 8.0
.target sm_75
.address_size 64
.visible .entry squares(.param .u64 out)
{
.reg .b32 %r<3>; .reg .b64 %d<3>;
ld.param.u64 %d0, [out]; mov.u32 %r1, %tid.x;
mad.lo.u32 %r2, %r1, %r1, 100;
mul.wide.u32 %d1, %r1, 4; add.s64 %d2, %d0, %d1;
st.global.u32 [%d2], %r2;
ret;
}
"""
MAD = "mad.lo.u32 %r2, %r1, %r1, 100;"
#: A loop that ends only when somebody sets the flag.
WAIT = """// qdbg: launch wait<<<1, 2>>>(flag = u32[1])
.version 8.0
.target sm_75
.address_size 64
.visible .entry wait(.param .u64 flag)
{
.reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<2>;
ld.param.u64 %d0, [flag];
$LOOP:
ld.volatile.global.u32 %r0, [%d0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra $LOOP;
ret;
}
"""
ENDLESS = "// qdbg-verify: endless\n"
LIMIT = 3_000


class Agrees:
    """A model that would generate every token that is proposed."""

    def verify(
        self, prompt: Sequence[int], trace: Sequence[int], progress: Progress | None = None
    ) -> Wrong | None:
        return None


def verified(folder: Path, text: str) -> Verified:
    """A PTX text's first launch, as the command checks it, on a model that agrees."""
    (folder / "k.ptx").write_text(text)
    (case,) = cases([folder])
    return Checker(SMALL, LIMIT)(Agrees(), case, lambda content: None)


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (SQUARES, 0, None),
        (SQUARES.replace("109, 116", "109, 117"), 1, "not what the file expects"),
        (SQUARES.replace("// qdbg: expect", "// expect").replace("u32[5]", "u32[4]"), 0, None),
        (SQUARES.replace("out = u32[5]", "out = u32[4]").replace(", 116", ""), 1, "lane 4"),
        (SQUARES.replace(MAD, "cvt.rn.f32.u32 %r2, %r1;"), 3, "cvt"),
        (SQUARES.replace(MAD, "mad.lo.u32 %r2 %r1;"), 2, "k.ptx:10"),
        (SQUARES.replace("u32[5]", "u32[5"), 2, "bracket"),
        (SQUARES.partition("\n.")[2].join([".", ""]), 2, "out"),
        (WAIT, 3, f"within {LIMIT:,} forward passes"),
        (ENDLESS + WAIT, 0, None),
        (ENDLESS + SQUARES, 1, "but it ended"),
    ],
    ids=["exact", "unexpected", "traps", "trap where a result was expected", "lacks an instruction",
         "not PTX", "wrong comment", "no launch", "no end", "endless", "endless that ends"],
)  # fmt: skip
def test_status_and_sentence(tmp_path: Path, text: str, status: int, says: str | None) -> None:
    result = verified(tmp_path, text)
    assert (result.status, result.error is None) == (status, says is None), result.error
    assert says is None or says in str(result.error)
    assert "\n" not in str(result.error)


def test_a_trap_that_both_see_is_exact(tmp_path: Path) -> None:
    """Without an expectation; thread 4 is the first past an array of four."""
    text = SQUARES.replace("// qdbg: expect", "// expect").replace("u32[5]", "u32[4]")
    result = verified(tmp_path, text)
    assert result.trap is not None
    assert (result.exact, result.trap.lane, result.expected) == (True, 4, None)


def test_endless_launches_are_checked_for_a_while(tmp_path: Path) -> None:
    result = verified(tmp_path, ENDLESS + WAIT)
    assert (result.tokens, result.expected, result.exact) == (ENDLESS_PASSES, True, True)


NEEDS_DOUBLES = "// qdbg-needs: A P\n"


def test_what_the_machine_lacks_is_run_by_the_interpreter_alone(tmp_path: Path) -> None:
    result = verified(tmp_path, NEEDS_DOUBLES + SQUARES)
    assert (result.missing, result.expected, result.exact) == (("P",), True, None)
    assert (result.status, result.tokens, result.ptx_instructions) == (0, 0, 7)
    result = verified(tmp_path, NEEDS_DOUBLES + SQUARES.replace("109, 116", "109, 117"))
    assert (result.missing, result.expected, result.status) == (("P",), False, 1)
    assert "not what the file expects" in str(result.error)


def test_a_block_may_be_larger_than_the_machines_warp_in_a_file_that_states_its_needs(tmp_path: Path) -> None:
    large = SQUARES.replace("<1, 5>", "<1, 9>").replace("u32[5]", "u32[9]").replace("// qdbg: expect", "//")
    assert verified(tmp_path, "// qdbg-needs: A\n" + large).missing == ("blocks of more than 8 threads",)
    assert verified(tmp_path, large).status == Exit.USAGE


def test_a_need_that_is_no_family_is_a_sentence(tmp_path: Path) -> None:
    result = verified(tmp_path, SQUARES + "\n// qdbg-needs: A, C\n")
    assert (result.status, "there is no family A," in str(result.error)) == (Exit.USAGE, True)


def test_every_launch_of_every_file_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "two.ptx").write_text(SQUARES + "// qdbg: launch squares<<<1, 1>>>(out = u32[1])\n")
    (tmp_path / "none.cu").write_text("__global__ void f() {}\n")
    (tmp_path / "notes.txt").write_text("no kernel")
    found = cases([tmp_path, tmp_path / "none.cu"])
    two, none = str(tmp_path / "below" / "two.ptx"), str(tmp_path / "none.cu")
    assert found == [Case(two, 1), Case(two, 2), Case(none, None)]


# -- a wrong weight ----------------------------------------------------------------------------------------


def flip(weights: Path, tensor: str, row: int, bit: int) -> None:
    """Flip one bit of the largest bfloat16 in a row of a matrix of a safetensors file, in place."""
    content = bytearray(weights.read_bytes())
    size = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + size])[tensor]
    width = entry["shape"][1]
    start = 8 + size + entry["data_offsets"][0] + 2 * width * row
    values = np.frombuffer(bytes(content[start : start + 2 * width]), "<u2")
    magnitude = (values & 0x7FFF).astype(int)
    largest = int(magnitude.argmax())
    assert magnitude[largest] > 0, "a row of zeros"
    content[start + 2 * largest + bit // 8] ^= 1 << bit % 8
    weights.write_bytes(content)


@pytest.mark.stock
@pytest.mark.parametrize("tensor", ["lm_head.weight", "model.embed_tokens.weight"])
def test_one_flipped_bit_is_found_and_located(small_checkpoint: Path, tmp_path: Path, tensor: str) -> None:
    """The sign of one weight of the token for 109.  The head then cannot emit it; the embedding means
    something else once it is fed, which is a pass later and lane 4's turn.
    """
    kernel = tmp_path / "squares.ptx"
    kernel.write_text(SQUARES)
    case = Case(str(kernel), 1)
    damaged = tmp_path / "damaged"
    shutil.copytree(small_checkpoint, damaged, ignore=shutil.ignore_patterns("sparse.npz"))
    token = Vocabulary(SMALL)[Token(Kind.RESULT, 109)]
    flip(damaged / "model.safetensors", tensor, token, 15)

    assert check(case, SparseEngine(small_checkpoint), SMALL, LIMIT).status == 0
    result = check(case, SparseEngine(damaged), SMALL, LIMIT)

    proposal = propose(case, SMALL, LIMIT)
    right, ids = proposal.session.tokens, proposal.prepared.image.ids
    assert right.count(token) == 1
    engine = SparseEngine(damaged)
    generated = [engine.prefill(ids)]
    while generated[-1] == right[len(generated) - 1]:
        generated.append(engine.step())
    assert result.wrong is not None
    assert result.status == 1
    assert result.wrong.number == len(generated)  # where a generation goes wrong, verify does
    assert result.wrong.found == str(Vocabulary(SMALL).token(generated[-1]))
    if tensor == "lm_head.weight":
        assert result.wrong.number == right.index(token) + 1
        assert (result.wrong.lane, result.wrong.block) == (3, (0, 0, 0))
        assert (result.wrong.expected, result.wrong.text) == ("<result 0x6d>", MAD)
        assert result.wrong.line == SQUARES.splitlines().index(MAD) + 1
        assert f"squares.ptx:{result.wrong.line}: pass {result.wrong.number}" in str(result.error)


# -- the suite ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpensAgrees:
    def __call__(self) -> Agrees:
        return Agrees()


@dataclass(frozen=True)
class OpensNothing:
    def __call__(self) -> Agrees:
        raise Failure("there is no model here", Exit.USAGE)


@dataclass(frozen=True)
class Hostile:
    """Kills its process at one file, and checks every other."""

    def __call__(self, engine: Verifier, case: Case, tell: Tell, /) -> Verified:
        tell(1)
        if "bad" in case.path:
            os.kill(os.getpid(), signal.SIGKILL)
        return Checker(SMALL, LIMIT)(engine, case, tell)


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process with a signal")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_process_costs_one_launch(tmp_path: Path, jobs: int) -> None:
    names = ["a.ptx", "bad.ptx", "c.ptx", "worse_bad.ptx"]
    for name in names:
        (tmp_path / name).write_text(SQUARES)
    results = run_suite(cases([tmp_path]), OpensAgrees(), Hostile(), jobs, failed)
    assert [Path(r.path).name for r in results] == names
    assert [r.status for r in results] == [0, Exit.USAGE, 0, Exit.USAGE]
    assert "SIGKILL" in str(results[1].error)
    assert "bad.ptx" in str(results[1].error)


def test_an_engine_that_does_not_open_ends_the_suite(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(SQUARES)
    with pytest.raises(Failure, match="no model") as failure:
        run_suite(cases([tmp_path]), OpensNothing(), Checker(SMALL, LIMIT), 1, failed)
    assert failure.value.status is Exit.USAGE


@pytest.mark.parametrize(
    ("statuses", "status"),
    [([0, 0], 0), ([0, 3], 3), ([3, 2, 0], 2), ([2, 0, 1, 3], 1)],
)
def test_the_worst_launch_decides_the_exit_status(statuses: list[int], status: int) -> None:
    assert worst(statuses) == status


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.stock
@pytest.mark.parametrize("engine", ["sparse", "stock"])
def test_json_of_a_suite_with_a_broken_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    (tmp_path / "a.ptx").write_text(SQUARES)
    (tmp_path / "b.ptx").write_text("not PTX")
    with pytest.raises(SystemExit) as exit_:
        main(["verify", str(tmp_path), "--json", "--jobs", "1", "--engine", engine])
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert exit_.value.code == Exit.USAGE
    assert (report["engine"], len(report["checkpoint_sha256"])) == (engine, 64)
    first, second = report["kernels"]
    assert (first["kernel"], first["exact"], first["expected"], first["status"]) == ("squares", True, True, 0)
    assert (first["wrong"], first["wrong_tokens"], first["error"]) == (None, 0, None)
    assert first["tokens"] == sum(first["kinds"].values())
    assert (second["kernel"], second["exact"], second["status"]) == (None, None, 2)
    assert report["totals"]["launches"] == 2
    assert report["totals"]["ok"] == 1
    assert report["totals"]["tokens"] == first["tokens"]
    assert err == f"qdbg: {report['error']}\n"


@pytest.mark.stock
def test_a_suite_of_which_nothing_was_tested_is_not_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine lacks doubles: the launch is right on the interpreter, and the model has read nothing."""
    (tmp_path / "a.ptx").write_text(NEEDS_DOUBLES + SQUARES)
    with pytest.raises(SystemExit) as exit_:
        main(["verify", str(tmp_path), "--json", "--jobs", "1"])
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (exit_.value.code, report["totals"]["ok"]) == (Exit.UNSUPPORTED, 0)
    assert err == f"qdbg: {report['error']}\n"
    assert "lacks what the kernels need (P)" in err


@pytest.mark.parametrize("arguments", [["no_such_folder"], ["."], ["--engine", "interpreter"]])
def test_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["verify", *arguments])
    assert exit_.value.code == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.stock
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_ends_at_once(tmp_path: Path, children_of: Callable[[int], list[int]]) -> None:
    (tmp_path / "wait.ptx").write_text(WAIT)
    command = [sys.executable, "-m", "qdbg", "verify", str(tmp_path), "--max-passes", "100000000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        deadline = time.monotonic() + 300  # the checkpoint may have to be built
        while not (workers := children_of(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody hears of it
        start = time.monotonic()
        _, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED
    assert err == "qdbg: interrupted after 0 of 1 launches\n"
    assert time.monotonic() - start < 5
    assert workers
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


@pytest.fixture
def children_of() -> Callable[[int], list[int]]:
    """The processes that a process has started with `spawn`."""

    def find(parent: int) -> list[int]:
        listing = subprocess.run(
            ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split(None, 2) for line in listing.splitlines()]
        return [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "spawn_main" in args]

    return find
