"""Snapshots of the sparse engine leave out what is the same anyway, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lowered import prompt_of
from machines import SMALL
from test_emitted_model import KERNEL
from test_sparse import ORDINARY, ordinary_model

from qdbg.compiler.machine.build import machine
from qdbg.runtime.history import weight
from qdbg.runtime.sparse.engine import SparseEngine, SparseModel

pytestmark = pytest.mark.stock


@pytest.mark.parametrize("kind", ORDINARY)
def test_they_hold_all_that_tokens_change(tmp_path: Path, kind: str) -> None:
    """Ordinary models with random weights: every row and every tap counts."""
    ordinary_model(tmp_path, {**ORDINARY[kind]})
    ids = np.random.default_rng(3).integers(0, 301, 40).tolist()
    model = SparseModel(tmp_path)
    model.feed(ids[:10])
    snapshots = [model.snapshot()]
    answers = []
    for token in ids[10:]:
        answers.append((model.feed([token]), model.logits.copy()))
        snapshots.append(model.snapshot())
    model.reset()
    model.feed(ids[20:])
    model.snapshot()  # of another launch
    for start in (0, 25, 7, 8):
        model.restore(snapshots[start])
        for token, (answer, logits) in list(zip(ids[10:], answers, strict=True))[start : start + 5]:
            assert model.feed([token]) == answer
            np.testing.assert_array_equal(model.logits, logits)


def test_those_of_a_machine_are_exact_and_small(small_checkpoint: Path) -> None:
    ids = [machine(SMALL).vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    engine = SparseEngine(small_checkpoint)
    engine.prefill(ids)
    taken = []
    for _ in range(6):
        taken.append((engine.snapshot(), engine.model.state.recurrent.copy(), engine.margin()))
        engine.step()
    first = taken[0][0]
    for snapshot, recurrent, margin in [*reversed(taken), taken[4]]:
        engine.restore(snapshot)
        np.testing.assert_array_equal(engine.model.state.recurrent, recurrent)
        assert engine.margin() == margin
        held: set[int] = set()
        weight(first, held)
        assert weight(snapshot, held) < recurrent.nbytes / 10
