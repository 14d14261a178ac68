"""Bad PTX by mutation: whatever one token does, it ends in a result or in one sentence with a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import mutants, outcome

from qdbg.compiler.source import load_module

ROOT = Path(__file__).parents[1]
KERNELS = [
    "dot.cu",
    "atomics/histogram.cu",
    "bits/popcount.cu",
    "divergent/nested.cu",
    "elementwise/saxpy.cu",
    "hash/fnv1a.cu",
    "reduction/shuffle_sum.cu",
]
COUNT = 2_000
#: How many mutants at least must get past the reader, or the interpreter is not tested here.
RAN = COUNT // 20


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """PTX with a launch comment: kernels as compiled, and what a person wrote."""
    found = [(ROOT / "tests/ptx/handwritten.ptx").read_text()]
    for name in KERNELS:
        source = load_module(ROOT / "kernels" / name)
        comment = [line for line in source.text.split("\n") if line.startswith("// qdbg:")]
        lines = [line for line in source.ptx.lines if not line.lstrip().startswith(("//", ".loc", ".file"))]
        found.append("\n".join([*comment, *lines]))
    return found


def test_the_originals_run(texts: list[str]) -> None:
    assert [outcome(text, 100_000) for text in texts] == ["ran"] * len(texts)


def test_no_mutant_ends_in_a_traceback(texts: list[str]) -> None:
    ran = 0
    for mutant in mutants(texts, COUNT, seed=20):
        result = outcome(mutant.text, 100)
        ran += result == "ran"
        said = result.startswith("mutant.ptx:") and "\n" not in result
        assert result == "ran" or said, f"{mutant.old!r} to {mutant.new!r} at line {mutant.line}: {result}"
    assert ran > RAN
