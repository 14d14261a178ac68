"""Random programs on the simulated circuits, the sparse engine and the stock model."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import array_of
from machines import SMALL
from programs import Case
from ptx_runner import interpreter, source
from random_runs import disagreements, draw, emulated, mixed

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.config import NANO, MachineConfig
from qdbg.runtime import outcome
from qdbg.runtime.checkpoints import find_or_build
from qdbg.runtime.engine import Engine
from qdbg.runtime.launch import launch_for
from qdbg.runtime.launcher import Prepared, bind_for, open_session
from qdbg.runtime.sparse.engine import SparseEngine
from qdbg.runtime.stock import StockEngine

#: Passes of the longest programs that the circuits run here, all of them as long as that.
LONGEST = 900


def test_random_programs_on_the_circuits() -> None:
    """Every token as the emulator's, and the memory as the interpreter's.

    `random_runs` does the same with as many programs as one likes.
    """
    runs = [run for run in emulated(draw(60, mixed(SMALL.lanes)), SMALL) if run.passes < LONGEST]
    assert len(runs) >= 30
    wrong = disagreements(runs, SMALL)
    assert not wrong, wrong[0]


def check_on(engine: Engine, case: Case, config: MachineConfig) -> bool:
    """An engine runs the case in step with the interpreter, exactly; False where the case does not fit."""
    loaded = source(case.text)
    prepared = Prepared(loaded, bind_for(config, loaded, launch_for(loaded)), config)
    try:
        session = open_session(prepared, engine, "", 50_000)
    except LoweringError:
        return False
    session.start()
    result = outcome.run(session)
    assert (result.mismatch, result.trap) == (None, None), case.text
    reference = interpreter(case.text)
    reference.run(200_000)
    memory = engine.state().memory
    for name in case.written:
        found = array_of(prepared.bound, memory, name)
        np.testing.assert_array_equal(found, reference.array(name), err_msg=case.text)
    return True


@pytest.mark.stock
def test_random_programs_on_the_stock_model(stock_small: StockEngine) -> None:
    short = [run.case for run in emulated(draw(12, mixed(SMALL.lanes, size=6)), SMALL) if run.passes < 600]
    assert len(short) >= 5
    assert all(check_on(stock_small, case, SMALL) for case in short[:5])


@pytest.mark.stock
def test_random_programs_of_several_warps_on_the_sparse_engine() -> None:
    """The machine as it ships."""
    engine = SparseEngine(find_or_build(NANO).path)
    cases = draw(50, mixed(NANO.lanes, size=10))
    assert sum(check_on(engine, case, NANO) for case in cases) >= 45
