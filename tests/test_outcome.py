"""Headless runs and the JSON that they give."""

from __future__ import annotations

import json
from pathlib import Path

import blocks
import fakes
import numpy as np
import pytest

from qdbg.compiler.machine.config import NANO
from qdbg.runtime import outcome
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare
from qdbg.runtime.session import PASS_LIMIT, Session

KERNELS = Path(__file__).parent.parent / "kernels"


def of_kernel(name: str, pass_limit: int = PASS_LIMIT) -> Session:
    prepared = prepare(KERNELS / name, LaunchOptions())
    image = prepared.image
    session = Session(
        prepared.source,
        prepared.bound,
        image.program,
        Emulator(NANO),
        Interpreter(prepared.source.ptx, prepared.bound),
        image.vocabulary,
        NANO,
        image.ids,
        pass_limit=pass_limit,
    )
    session.start()
    return session


@pytest.mark.parametrize(
    "name", ["dot.cu", "divergent/nested.cu", "reduction/block_max.cu", "sort/odd_even.cu"]
)
def test_kernels_are_exact_and_as_their_files_expect(name: str) -> None:
    result = outcome.run(of_kernel(name))
    assert result.mismatch is None
    assert (result.exact, result.expected, result.status) == (True, True, 0)


@pytest.mark.parametrize("name", ["dot.cu", "divergent/nested.cu", "reduction/block_max.cu"])
def test_ptx_instructions_are_those_of_the_interpreter_alone(name: str) -> None:
    session = of_kernel(name)
    alone = Interpreter(session.source.ptx, session.bound)
    alone.run()
    assert outcome.run(session).ptx_instructions == alone.instructions


def test_expanded_calls_count_as_what_they_become() -> None:
    """operation_table.cu: lanes pick each of three functions, and nothing is a loop.

    So every instruction is issued once: alone those of the four functions, in step with the machine those of
    the kernel with its calls expanded, up to the call that is left for any other address.
    """
    session = of_kernel("divergent/operation_table.cu")
    functions = session.source.ptx.functions
    session.proceed()
    assert session.view().instructions == len(session.kernel.body) - 1
    assert outcome.alone(session).instructions == sum(len(function.body) for function in functions)


#: Two barriers, one for either half of the block: a GPU lets them meet, and so does the interpreter.
TWO_BARRIERS = """
    setp.gt.u32 %p1, %r1, 63;
    @%p1 bra upper;
    bar.sync 0;
    bra end;
upper:
    bar.sync 0;
end:
"""


def test_ptx_instructions_of_a_trap_are_those_that_the_machine_came_by(tmp_path: Path) -> None:
    session = blocks.started(blocks.launch(tmp_path, TWO_BARRIERS, "u32[128]", None))
    result = outcome.run(session)
    assert result.trap is not None
    assert result.ptx_instructions == 4 * 4 == session.view().instructions


@pytest.mark.parametrize("name", ["dot.cu", "divergent/nested.cu"])
def test_both_sides_of_a_view_agree_at_every_step(name: str) -> None:
    """Also in lanes that left a loop whose counter lives in a uniform register."""
    session = of_kernel(name)
    while not session.ended:
        view, busy = session.view(), session.trace.instruction.result
        for row in view.registers:
            mask = (1 << session.lockstep.width(row.name)) - 1
            both = zip(row.machine, row.interpreter, strict=True)
            known = [(m, i & mask) for m, i in both if m is not None and i is not None]
            assert row.name == busy or all(m == i for m, i in known)
            assert not any(row.differs)
        session.step()
    assert session.mismatch is None


def test_report() -> None:
    session = fakes.session()
    result = outcome.run(session)
    printed = json.loads(json.dumps(outcome.report(session, result)))
    assert printed["outputs"] == {"out": {"dtype": "i32", "shape": [4], "data": [1, 3, 6, 10]}}
    assert printed["expected"] is True
    # Two values a lane, CLR, three passes a lane and a BR in each round, CLR, a store a lane, HALT.
    rounds = 4 + 3 + 2 + 1
    assert printed["tokens"] == printed["passes"] == 2 * 4 + 1 + 3 * rounds + 4 + 1 + 4 + 1
    assert printed["ptx_instructions"] == 4 + 4 * 4 + 5


def test_mismatch_has_status_1() -> None:
    session = fakes.session(fakes.program(step=-2))
    result = outcome.run(session)
    assert (result.exact, result.status) == (False, 1)
    (entry,) = outcome.report(session, result)["mismatches"]
    assert (entry["lane"], entry["register"]) == (0, "%r2")


def test_trap_has_status_3() -> None:
    result = outcome.run(fakes.session(elements=3))
    assert (result.exact, result.expected, result.status) == (True, None, 3)
    assert "thread (3, 0, 0)" in str(result.trap)


def test_pass_limit_is_an_error() -> None:
    with pytest.raises(outcome.PassLimit, match="within 10 forward passes"):
        outcome.run(fakes.session(pass_limit=10))


def test_instructions_that_cost_no_pass_do_not_count_as_passes() -> None:
    """The limit is as many passes as the launch takes; it has more PTX instructions than that."""
    free = of_kernel("dot.cu")
    plenty = outcome.run(free)
    assert plenty.ptx_instructions > plenty.tokens
    tight = of_kernel("dot.cu", plenty.tokens)
    assert outcome.run(tight).ptx_instructions == plenty.ptx_instructions


def test_floats_read_back_to_the_same_bits() -> None:
    words = [
        0x7FC00000,
        0x7F800001,
        0xFFC00000,
        0x7F800000,
        0xFF800000,
        0x80000000,
        0x3DCCCCCD,
        0x00000001,
        0x7F7FFFFF,
    ]
    values = np.array(words, "<u4").view("<f4")
    encoded = json.loads(json.dumps(outcome.encode(values), allow_nan=False))
    assert encoded["data"][0] == "nan"
    assert encoded["data"][3:5] == ["inf", "-inf"]
    assert encoded["data"][6] == 0.1
    assert outcome.decode(encoded).view("<u4").tolist() == words
