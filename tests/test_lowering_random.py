"""Random programs: the compiled program in the emulator against the PTX reference interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings
from lowered import emulate
from programs import FEATURES, WAITS, Case, programs
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
    reference.run(200_000)
    assert result.trap is None
    for name in case.written:
        np.testing.assert_array_equal(result.array(name), reference.array(name))


@settings(quick, max_examples=60)
@given(programs())
def test_small_programs(case: Case) -> None:
    agree(case, TINY)


@settings(quick, max_examples=40)
@given(programs(max_block=8, size=25, depth=4))
def test_deeply_nested_programs(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=60)
@given(programs(size=25, depth=2, also=("integers",)))
def test_programs_of_all_integer_instructions(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=30)
@given(programs(size=20, depth=4))
def test_programs_that_are_short_of_divergence_bits(case: Case) -> None:
    agree(case, replace(NANO, slots=3))


@settings(quick, max_examples=40)
@given(programs(max_block=16, size=16, also=("functions", "integers")))
def test_programs_with_device_functions(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=30)
@given(programs(max_block=128, size=16, also=("spaces", "atomics")))
def test_blocks_of_several_warps_that_share_memory(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=40)
@given(programs(max_block=128, size=14, also=("warps",)))
def test_lanes_that_exchange_values(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=40)
@given(programs(max_block=64, size=18, depth=2, also=FEATURES))
def test_programs_of_everything(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=25)
@given(programs(max_block=40, size=10, depth=2, also=(WAITS,)))
def test_threads_that_wait_for_each_other(case: Case) -> None:
    agree(case, NANO)


@settings(quick, max_examples=30)
@given(programs(max_block=128, size=10, depth=2, also=("barriers",)))
def test_barriers_that_count(case: Case) -> None:
    agree(case, NANO)
