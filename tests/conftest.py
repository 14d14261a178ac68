"""Checkpoints of small machines for the tests, built once in a run."""

from __future__ import annotations

import os
from pathlib import Path

# Torch's threads wait busily: two workers with two threads each take minutes instead of seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from machines import SMALL

from qdbg.runtime.stock import StockEngine


@pytest.fixture(scope="session")
def small_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of the SMALL machine."""
    from qdbg.compiler.machine.build import build_checkpoint

    path = tmp_path_factory.mktemp("checkpoint") / "small"
    build_checkpoint(SMALL, path)
    return path


@pytest.fixture(scope="session")
def stock_small(small_checkpoint: Path) -> StockEngine:
    """The stock engine on the SMALL machine, in float32."""
    return StockEngine(small_checkpoint)
