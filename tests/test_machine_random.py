"""Random programs on the simulated circuits and on the stock model, against the PTX interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from lowered import prompt_of
from machines import SMALL, memory_words, run_circuits
from programs import Case, programs
from ptx_runner import interpreter

from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.config import MEMORY_BASE, NANO, MachineConfig
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.checkpoints import find_or_build
from qdbg.runtime.engine import Engine
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.sparse.engine import SparseEngine

PROGRAMS, BATCH = 300, 60


def draw(count: int, max_block: int = 8) -> list[Case]:
    """Random cases, the same in every run."""
    cases: list[Case] = []

    @settings(
        max_examples=count, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs(max_block=max_block))
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases


def expected(case: Case) -> np.ndarray:
    """What the interpreter leaves in `out`."""
    reference = interpreter(case.text)
    reference.run(100_000)
    return reference.array("out")


def array_in(memory: np.ndarray, bound: BoundLaunch, name: str) -> np.ndarray:
    """An array of a launch, cut out of the machine's memory."""
    place = next(a for a in bound.allocations if a.name == name)
    start = (place.address - MEMORY_BASE) // 4
    return memory[start : start + place.data.size]


def test_random_programs_on_the_circuits() -> None:
    built = machine(SMALL)
    cases = draw(PROGRAMS)
    assert len(cases) >= PROGRAMS
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        launches = [prompt_of(case.text, SMALL) for case in batch]
        generated, simulator = run_circuits(built, [tokens for _, _, tokens in launches])
        for index, (case, (_, bound, _), tokens) in enumerate(zip(batch, launches, generated, strict=True)):
            assert not any(t.kind is Kind.TRAP for t in tokens), case.text
            out = array_in(memory_words(simulator, index, SMALL), bound, "out")
            np.testing.assert_array_equal(out, expected(case), err_msg=case.text)


def check_on(engine: Engine, case: Case, config: MachineConfig, limit: int) -> None:
    """An engine runs the case to its end and leaves in `out` what the interpreter does."""
    _, bound, tokens = prompt_of(case.text, config)
    vocabulary = machine(config).vocabulary
    token = vocabulary.token(engine.prefill([vocabulary[t] for t in tokens]))
    while token.kind is not Kind.END:
        assert engine.passes < limit
        assert token.kind is not Kind.TRAP
        token = vocabulary.token(engine.step())
    out = array_in(engine.state().memory, bound, "out")
    np.testing.assert_array_equal(out, expected(case), err_msg=case.text)


@pytest.mark.stock
def test_random_programs_on_the_stock_model(stock_small) -> None:  # type: ignore[no-untyped-def]
    for case in draw(PROGRAMS)[:: PROGRAMS // 10][:10]:
        check_on(stock_small, case, SMALL, limit=5000)


@pytest.mark.stock
def test_random_programs_of_full_warps_on_the_sparse_engine() -> None:
    """The machine as it ships, with up to 32 threads a block."""
    engine = SparseEngine(find_or_build(NANO).path)
    for case in draw(50, max_block=32):
        check_on(engine, case, NANO, limit=50_000)
