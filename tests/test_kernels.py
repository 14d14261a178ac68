"""Every kernel in `kernels/`, every launch it offers, against its own expectations.

The expected values come from compiling the same CUDA source as host C++ (`make_expectations.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from families import families
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE, NANO
from qdbg.compiler.machine.isa import Trap
from qdbg.compiler.machine.vocabulary import Kind, Token
from qdbg.compiler.source import Source, load_module
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Fault, Interpreter, LimitReached
from qdbg.runtime.launch import Allocation, bind, parse_launches
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared, open_engine, prepare
from qdbg.runtime.needs import stated
from qdbg.runtime.replay import Replay
from qdbg.runtime.suite import Case, lacks

if TYPE_CHECKING:
    from qdbg.runtime.engine import Engine

KERNELS = Path(__file__).parent.parent / "kernels"
FAULTS = KERNELS / "faults"
LIMIT = 200_000
#: What runs on the model in transformers, a few passes a second: (kernel, launch).
ON_STOCK = [
    ("dot.cu", 1),
    ("elementwise/vector_add.cu", 1),
    ("elementwise/saxpy.cu", 1),
    ("elementwise/transpose.cu", 1),
    ("elementwise/gather_scatter.cu", 1),
    ("bits/shifts.cu", 1),
    ("divergent/collatz.cu", 1),
    ("divergent/nested.cu", 1),
    ("divergent/early_exit.cu", 1),
    ("reduction/serial_sum.cu", 1),
    ("scan/prefix_sum.cu", 2),
    ("hash/murmur.cu", 1),
    ("faults/out_of_bounds.cu", 1),
]


def launches(supported: bool = False) -> list[tuple[str, int]]:
    """(path below `kernels/`, number of the launch) of everything that must end well; what the machine
    has all of, if `supported`."""
    return [
        (str(path.relative_to(KERNELS)), number)
        for path in sorted(KERNELS.rglob("*.cu"))
        if FAULTS not in path.parents
        for number, _ in enumerate(parse_launches(path.read_text()), 1)
        if not (supported and lacks(Case(str(path), number), NANO))
    ]


@cache
def prepared(path: str, number: int = 1) -> Prepared:
    return prepare(KERNELS / path, LaunchOptions(number=number))


@cache
def compiled(path: str, opt: int) -> Source:
    return load_module(KERNELS / path, opt)


def emulate(launch: Prepared) -> Replay:
    """Generates to the end of the launch; the memory is then the replay's, from the tokens alone."""
    image = launch.image
    engine = Emulator(image.config)
    replay = Replay(image.program, image.vocabulary, image.uniforms, image.memory, image.threads)
    replay.feed(engine.prefill(image.ids))
    while not replay.trace.ended:
        assert engine.passes < LIMIT
        replay.feed(engine.step())
    return replay


def content(memory: NDArray[np.uint32], allocation: Allocation) -> NDArray[np.generic]:
    start = allocation.address - MEMORY_BASE
    return memory.view(np.uint8)[start : start + allocation.size].view(allocation.data.dtype)


@pytest.mark.parametrize("opt", [3, 1])
@pytest.mark.parametrize(("path", "number"), launches())
def test_interpreter_gives_what_is_expected(path: str, number: int, opt: int) -> None:
    source = compiled(path, opt)
    bound = bind(source, parse_launches(source.text, path)[number - 1])
    interpreter = Interpreter(source.ptx, bound, races=True)
    interpreter.run(limit=LIMIT)
    assert interpreter.findings == ()
    assert bound.expectations, f"{path} states no expectation for launch {number}"
    for expectation in bound.expectations:
        wrong = expectation.mismatches(interpreter.array(expectation.name))
        assert not len(wrong), f"{expectation.name}{wrong.tolist()} is not as expected"


@pytest.mark.parametrize(("path", "number"), launches(supported=True))
def test_emulator_gives_what_is_expected(path: str, number: int) -> None:
    launch = prepared(path, number)
    replay = emulate(launch)
    assert replay.trace.trap is None
    arrays = {allocation.name: allocation for allocation in launch.bound.allocations}
    for expectation in launch.bound.expectations:
        assert content(replay.memory, arrays[expectation.name]).tolist() == expectation.values.tolist()


@pytest.fixture(scope="module")
def stock() -> Engine:
    """One checkpoint in transformers, for every kernel."""
    return open_engine("stock", NANO)[0]


@pytest.mark.stock
@pytest.mark.parametrize(("path", "number"), ON_STOCK)
def test_model_generates_the_architectures_tokens(stock: Engine, path: str, number: int) -> None:
    """Token for token; what the tokens stand for is checked on the emulator."""
    ids = prepared(path, number).image.ids
    emulator = Emulator(NANO)
    expected, got = emulator.prefill(ids), stock.prefill(ids)
    end = emulator.vocabulary[Token(Kind.END)]
    while expected == got != end:
        expected, got = emulator.step(), stock.step()
    assert (stock.passes, emulator.vocabulary.token(got)) == (emulator.passes, Token(Kind.END))


@pytest.mark.parametrize("path", sorted(str(p.relative_to(KERNELS)) for p in KERNELS.rglob("*.cu")))
def test_a_file_states_the_families_that_its_code_needs(path: str) -> None:
    text = (KERNELS / path).read_text()
    assert "qdbg: launch" in text.split("\n\n")[0], "the head comment says how to launch it"
    assert "".join(sorted(stated(text, path))) == families(compiled(path, 3).ptx)


def test_out_of_bounds_traps_in_the_first_lane_past_the_end() -> None:
    """`out` has five words and every thread writes one, so thread 5 is the first to miss."""
    launch = prepared("faults/out_of_bounds.cu")
    replay = emulate(launch)
    assert replay.trace.trap is not None
    assert replay.trace.trap[:2] == (5, Trap.OUT_OF_BOUNDS)
    assert content(replay.memory, launch.bound.allocations[0]).tolist() == [i * i for i in range(5)]
    with pytest.raises(Fault) as fault:
        Interpreter(launch.source.ptx, launch.bound).run()
    assert (fault.value.lane, fault.value.reason) == (5, "out of bounds")


def test_forever_does_not_end() -> None:
    launch = prepared("faults/forever.cu")
    with pytest.raises(LimitReached):
        Interpreter(launch.source.ptx, launch.bound).run(limit=1000)
    engine = Emulator(launch.image.config)
    replay = Replay(
        launch.image.program,
        launch.image.vocabulary,
        launch.image.uniforms,
        launch.image.memory,
        launch.image.threads,
    )
    replay.feed(engine.prefill(launch.image.ids))
    for _ in range(1000):
        replay.feed(engine.step())
    assert not replay.trace.ended
