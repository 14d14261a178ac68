"""Random programs on the simulated circuits, the sparse engine and the stock model."""

from __future__ import annotations

import pytest
from machines import SMALL
from programs import Case
from ptx_runner import source
from random_runs import Run, differences, disagreements, draw, emulated, mixed

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.config import NANO
from qdbg.runtime import outcome
from qdbg.runtime.checkpoints import find_or_build
from qdbg.runtime.launch import launch_for
from qdbg.runtime.launcher import Prepared, bind_for, open_session
from qdbg.runtime.sparse.engine import SparseEngine
from qdbg.runtime.stock import StockEngine

#: Passes of the longest programs that the circuits run here, all of them as long as that.
LONGEST = 900


def runs_of(count: int, size: int, longest: int) -> list[Run]:
    """Those of `count` programs that end within so many passes."""
    return [run for run in emulated(draw(count, mixed(SMALL.lanes, size)), SMALL) if run.passes < longest]


def test_random_programs_on_the_circuits() -> None:
    """Every token as the emulator's, and the memory as the interpreter's.

    `random_runs` does the same with as many programs as one likes.
    """
    runs = runs_of(60, 12, LONGEST)
    assert len(runs) >= 30
    wrong = disagreements(runs, SMALL)
    assert not wrong, wrong[0]


@pytest.mark.stock
def test_random_programs_on_the_stock_model(stock_small: StockEngine) -> None:
    """Every token as the emulator's, and its memory as the interpreter's."""
    runs, vocabulary = runs_of(40, 8, 500)[:5], machine(SMALL).vocabulary
    assert len(runs) == 5
    for run in runs:
        assert not differences(run.case, run.result.bound, run.result.state.memory)
    launches = [
        ([vocabulary[t] for t in run.result.prompt], [vocabulary[t] for t in run.result.tokens])
        for run in runs
    ]
    assert stock_small.verify_batch(launches) == [None] * len(runs)


def fits(engine: SparseEngine, case: Case) -> bool:
    """The engine runs the case in step with the interpreter, exactly; False where the case does not fit."""
    loaded = source(case.text)
    prepared = Prepared(loaded, bind_for(NANO, loaded, launch_for(loaded)), NANO)
    try:
        session = open_session(prepared, engine, "", 50_000)
    except LoweringError:
        return False
    session.start()
    result = outcome.run(session)
    assert (result.mismatch, result.trap) == (None, None), case.text
    wrong = differences(case, prepared.bound, engine.state().memory)
    assert not wrong, wrong[0]
    return True


@pytest.mark.stock
def test_random_programs_of_several_warps_on_the_sparse_engine() -> None:
    """The machine as it ships."""
    engine = SparseEngine(find_or_build(NANO).path)
    cases = draw(50, mixed(NANO.lanes, size=10))
    assert sum(fits(engine, case) for case in cases) >= 45
