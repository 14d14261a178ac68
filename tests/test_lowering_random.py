"""Random programs: the compiled program in the emulator against the PTX reference interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from generate import Case, programs
from hypothesis import HealthCheck, Phase, assume, given, settings
from lowered import emulate
from ptx_runner import interpreter

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.config import NANO, TINY, MachineConfig

quick = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


def agree(case: Case, config: MachineConfig) -> None:
    """Both end without a trap and leave the same memory; cases too large for the machine do not count."""
    try:
        result = emulate(case.text, config)
    except LoweringError:
        assume(False)
    reference = interpreter(case.text)
    reference.run(100_000)
    assert result.trap is None
    np.testing.assert_array_equal(result.array("out"), reference.array("out"))


@settings(quick, max_examples=60)
@given(programs())
def test_small_programs(case: Case) -> None:
    agree(case, TINY)


@settings(quick, max_examples=40)
@given(programs(max_block=8, size=25, depth=4))
def test_deeply_nested_programs(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=60)
@given(programs(size=25, depth=2, integers=True))
def test_programs_of_all_integer_instructions(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=30)
@given(programs(size=20, depth=4))
def test_programs_that_are_short_of_divergence_bits(case: Case) -> None:
    agree(case, replace(NANO, slots=3))
