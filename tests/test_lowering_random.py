"""Random programs: the compiled program in the emulator against the PTX reference interpreter."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from generate import Case, programs
from lowered import emulate
from ptx_runner import interpreter

from qdbg.compiler.machine.config import NANO, TINY


def agree(case: Case, config: object) -> None:
    reference = interpreter(case.text)
    reference.run(100_000)
    result = emulate(case.text, config)  # type: ignore[arg-type]
    assert result.trap is None
    np.testing.assert_array_equal(result.array("out"), reference.array("out"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_agree_with_the_interpreter(case: Case) -> None:
    agree(case, NANO)
