"""The compiled code of the sparse engine: how it is kept, loaded and made, and what it may skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdbg.runtime.engine import Interrupted
from qdbg.runtime.sparse import block, compile, native, single
from qdbg.runtime.sparse.compiled import FUNCTIONS, reached
from qdbg.runtime.sparse.elementary import DEAD, add_product, silu
from qdbg.runtime.sparse.many import closed
from qdbg.runtime.sparse.pack import make_columns, make_lists

DOT = Path(__file__).parent.parent / "kernels" / "dot.cu"


def test_a_launch_needs_no_numba_once_its_code_is_kept() -> None:
    """Its import alone would take a third of what a person waits for."""
    native.entry("feed")
    script = (
        "import sys; from qdbg.cli import main\n"
        f"try: main(['run', {str(DOT)!r}])\n"
        "except SystemExit as exit: assert exit.code == 0\n"
        "heavy = {'numba', 'torch', 'transformers', 'textual', 'hypothesis'} & sys.modules.keys()\n"
        "print(heavy or 'light')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "light"


def test_damaged_code_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_folder", lambda: tmp_path)
    assert native._kept("feed") is None
    native._keep("feed", b"machine code")
    assert native._kept("feed") == b"machine code"
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", whole[:-1] + b"x"):
        file.write_bytes(damaged)
        assert native._kept("feed") is None


def test_code_that_cannot_be_kept_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(native, "_folder", lambda: tmp_path / "file" / "folder")
    native._keep("feed", b"machine code")
    assert native._kept("feed") is None


def test_code_of_older_sources_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age in range(6):
        monkeypatch.setattr(native, "_folder", lambda age=age: tmp_path / f"compiled-{age}")
        native._keep("feed", b"machine code")
        os.utime(tmp_path / f"compiled-{age}" / "feed.o", (age, age))
    assert {folder.name for folder in tmp_path.iterdir()} == {"compiled-3", "compiled-4", "compiled-5"}


def test_compiling_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that compiles is gone by the time that the interruption arrives."""
    started: list[subprocess.Popen[str]] = []

    class Watched(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments, **options):  # type: ignore[no-untyped-def]
            super().__init__(*arguments, **options)
            started.append(self)

    def interrupt(done: int, steps: int) -> None:
        assert 0 <= done < steps
        raise Interrupted

    monkeypatch.setattr(subprocess, "Popen", Watched)
    with pytest.raises(Interrupted):
        native._compile("feed", interrupt)
    (compiler,) = started
    assert compiler.returncode == (1 if os.name == "nt" else -9)


def test_compiles_here_where_no_process_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "compile_entry", lambda name: f"code of {name}".encode())
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert native._compile("feed", None) == b"code of feed"


def test_steps_are_the_functions_that_an_entry_calls() -> None:
    feed, check = reached(single.feed), reached(block.check)
    assert silu in feed
    assert silu in check
    assert closed in check
    assert closed not in feed
    assert {id(f) for f in [*feed, *check]} == {id(f) for f in FUNCTIONS}  # none is without a use


FLOATS = st.floats(-300, 300, width=32)


@given(st.lists(st.tuples(FLOATS, st.lists(FLOATS, min_size=3, max_size=3)), max_size=6), FLOATS)
def test_a_row_that_is_passed_over_is_closed_for_every_token(
    terms: list[tuple[float, list[float]]], factor: float
) -> None:
    rows = make_lists([np.array([[weight for weight, _ in terms]], np.float32)])
    inputs = np.array([values for _, values in terms], np.float32).reshape(len(terms), 3)
    span = np.stack([inputs.min(1), inputs.max(1)], axis=1) if len(terms) else np.zeros((0, 2), np.float32)
    scale = np.float32(factor)
    opens = False
    for token in range(3):
        total = np.float32(0)
        for k in range(rows.at[0], rows.at[1]):
            total += rows.value[k] * inputs[rows.entry[k], token]
        opens |= bool(scale * total >= DEAD and scale * total != 0)  # what silu does not make 0
    if closed.py_func(rows, 0, scale, span):
        assert not opens


def test_what_is_closed_for_certain_is_found() -> None:
    """By hand: inputs within [0, 1] and [-1, 1], weights -200 and 50, give at most 50 and at least -250."""
    span = np.array([[0, 1], [-1, 1], [1, 1]], np.float32)
    sure, open_ = [-200.0, 50.0, DEAD - 51], [-200.0, 50.0, DEAD - 50]
    rows = make_lists([np.array([sure, open_, [0, 0, 0]], np.float32)])
    one = np.float32(1)
    assert [closed.py_func(rows, row, one, span) for row in range(3)] == [True, False, True]
    assert not closed.py_func(rows, 0, -one, span)


def test_bytes_that_a_product_reads() -> None:
    """A full stretch of 64 values; three values with the number of their row."""
    matrix = np.zeros((64, 3), np.float32)
    matrix[:, 0] = 1
    matrix[[2, 30, 40], 1] = 1
    columns = make_columns([matrix])
    for x, size in (([1, 0, 0], 256), ([0, 1, 0], 24), ([2, 3, 0], 280), ([0, 0, 1], 0)):
        y = np.zeros(64, np.float32)
        assert add_product.py_func(columns, 0, np.array(x, np.float32), y) == size
        np.testing.assert_array_equal(y, matrix @ np.array(x, np.float32))
