"""`qdbg bench`: its arithmetic, and that a quick run measures what it promises."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import emulate

from qdbg.cli import main
from qdbg.compiler.machine.config import NANO
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.bench import fit, rates
from qdbg.runtime.bench_processes import alone, first_paint, peak_memory
from qdbg.runtime.cost import Cost, Purpose, cost
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare
from qdbg.runtime.suite import Case, propose

DOT = Path(__file__).parent.parent / "kernels" / "dot.cu"


def test_fit_of_three_points() -> None:
    """By hand: means 1 and 2/3; slope 1/2; the residuals leave a quarter of the variance."""
    line = fit([(0, 0), (1, 1), (2, 1)])
    assert (line.slope, line.intercept, line.r2) == pytest.approx((1 / 2, 1 / 6, 3 / 4))


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sets(st.integers(0, 10**6), min_size=2))
def test_fit_of_a_line_is_the_line(slope: int, intercept: int, xs: set[int]) -> None:
    line = fit([(x, slope * x + intercept) for x in xs])
    assert line.slope == pytest.approx(slope, abs=1e-6)
    assert line.r2 == pytest.approx(1)


def test_the_ratio_is_of_slices_side_by_side() -> None:
    """The machine slows down tenfold: the rates' medians are anybody's guess, the ratio stays."""
    fast, slow = iter([100.0, 10.0, 100.0]), iter([50.0, 5.0, 50.0])
    found = rates({"fast": lambda: next(fast), "slow": lambda: next(slow)}, 3)
    assert found.ratio == 2
    assert found.each == {"fast": 100, "slow": 50}


def held(size: int) -> int | None:
    """Peak memory with an array of so many bytes, every page of which is touched."""
    content = np.ones(size, np.uint8)
    return peak_memory() if content.any() else None


def test_memory_is_of_a_fresh_process() -> None:
    """An array of 200 MB shows; what this process has held before does not."""
    held(600_000_000)
    little, much = alone(held, 1), alone(held, 200_000_000)
    assert 195e6 < much - little < 230e6
    assert little < 300e6


#: Three of four lanes store 5,000 times their number, the lowest bit changed.
COUNTED = """// qdbg: launch k<<<1, 4>>>(out = u32[4])
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<1>; .reg .b32 %r<4>; .reg .b64 %d<4>;
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
@%p0 bra $OUT;
ld.param.u64 %d0, [out];
mul.wide.u32 %d1, %r0, 4;
add.s64 %d2, %d0, %d1;
mul.lo.u32 %r1, %r0, 5000;
xor.b32 %r2, %r1, 1;
st.global.u32 [%d2], %r2;
$OUT:
ret;
}
"""


def test_cost_of_a_launch(tmp_path: Path) -> None:
    """By hand: four lanes issue 3 instructions, three of them 6 more and all the last, one warp 10.

    The products 5000, 10000, 15000 come back in two parts each, and so do they with the lowest bit changed.
    """
    kernel = tmp_path / "k.ptx"
    kernel.write_text(COUNTED)
    found = cost(propose(Case(str(kernel), 1), NANO, 1_000))
    assert (found.instructions, found.lane_instructions) == (10, 4 * 3 + 3 * 6 + 4)
    assert found.purposes[Purpose.VALUE] == found.purposes[Purpose.MORE] == 6
    assert found.purposes[Purpose.BRANCH] == 4
    assert found.purposes[Purpose.STORE] == 3
    assert found.purposes[Purpose.END] == 1
    assert found.tokens == len(emulate(COUNTED).tokens)
    assert (found + Cost()).purposes == found.purposes


@pytest.mark.stock
def test_quick_report(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["bench", str(DOT), "--quick", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert exit_.value.code == 0
    for engine in ("sparse", "stock"):
        for rate in ("passes_per_s", "prefill_tokens_per_s", "verify_tokens_per_s"):
            assert report[engine][rate] > 0
    assert report["verify"]["passes_per_s"] == report["sparse"]["verify_tokens_per_s"]
    assert report["ratio"].keys() == {"passes", "prefill", "verify"}
    assert min(report["ratio"].values()) > 1  # what is sparse for, otherwise
    assert 0 < report["first_paint_s"] < report["first_prompt_s"] < 60
    assert report["build_s"] > 0
    bound = report["bound"]
    assert 0 < bound["weight_bytes_per_pass"] < 8 * report["checkpoint"]["nonzeros"]
    read = bound["weight_bytes_per_pass"] * report["sparse"]["passes_per_s"]
    assert bound["share"] == pytest.approx(read / bound["memory_bytes_per_s"], abs=1e-3)
    checkpoint = report["checkpoint"]
    assert checkpoint["layers"] > 1
    assert checkpoint["nonzeros"] < checkpoint["bytes"] / 2  # two bytes a weight, most of them 0
    assert report["stock"]["memory_bytes"] > checkpoint["bytes"]  # it holds every weight
    assert report["machine"]["cores"] > 0
    assert [(k["kernel"], k["launch"]) for k in report["kernels"]] == [("dot", 1), ("dot", 2)]
    for entry in report["kernels"]:
        assert entry["tokens"] == tokens_of(entry["launch"])
    assert report["tokens"]["total"] == sum(k["tokens"] for k in report["kernels"])
    assert report["tokens"]["total"] == sum(kind["tokens"] for kind in report["tokens"]["kinds"].values())
    assert report["tokens"]["kinds"]["traps and ends"]["tokens"] == 2
    sizes = [point["tokens"] for point in report["growth"]["points"]]
    assert sizes == sorted(set(sizes))
    assert report["growth"]["slope"] > 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_first_line_longer_than_the_pane_is_seen(tmp_path: Path) -> None:
    """The longest word stands where the pane ends."""
    kernel = tmp_path / "long.cu"
    kernel.write_text(f"// Short words,{' and more' * 10} unrecognisable\n{DOT.read_text()}")
    seen = first_paint(kernel, patience=30)
    assert seen is not None
    assert seen.source < seen.prompt  # drawn before Textual is there


def tokens_of(launch: int) -> int:
    """How many tokens the architecture generates."""
    image = prepare(DOT, LaunchOptions(number=launch)).image
    engine = Emulator(NANO)
    token = engine.prefill(image.ids)
    while image.vocabulary.token(token).kind is not Kind.END:
        token = engine.step()
    return engine.passes
