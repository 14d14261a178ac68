"""Random programs on the simulated circuits, against the interpreter and the architecture's emulator.

    python tests/random_runs.py 1000 --seed 7

runs so many of them, with other programs for another seed, and prints what does not agree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from lowered import Result, array_of, emulate
from machines import SMALL, memory_words, run_circuits
from numpy.typing import NDArray
from programs import FEATURES, Case, programs
from ptx_runner import interpreter

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.config import MachineConfig
from qdbg.runtime.launch import BoundLaunch

#: What a kernel may contain besides 32-bit arithmetic and control flow, which differ: early returns and
#: device functions in the first, everything that threads do together in the second.
KINDS = (("integers", "functions"), tuple(FEATURES))


@st.composite
def mixed(draw: st.DrawFn, max_block: int, size: int = 12) -> Case:
    """Programs of both kinds, with blocks of up to `max_block` threads."""
    also: Collection[str] = draw(st.sampled_from(KINDS))
    return draw(programs(max_block=max_block, size=size, depth=2, also=also))


def draw(count: int, cases: st.SearchStrategy[Case], number: int = 0) -> list[Case]:
    """`count` different cases, the same in every run with the same `number`.

    Hypothesis draws variations of a case one after the other, so only some of them count.
    """
    found: dict[str, Case] = {}

    @seed(number)
    @settings(
        max_examples=3 * count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases)
    def collect(case: Case) -> None:
        found[case.text] = case

    collect()
    assert len(found) >= count
    return list(found.values())[:: len(found) // count][:count]


@dataclass(frozen=True)
class Run:
    """A case that the emulator has run."""

    case: Case
    result: Result

    @property
    def passes(self) -> int:
        """Tokens that the machine reads, those that it generates among them."""
        return len(self.result.prompt) + len(self.result.tokens)


def emulated(cases: list[Case], config: MachineConfig) -> Iterator[Run]:
    """The cases that fit the machine."""
    for case in cases:
        try:
            yield Run(case, emulate(case.text, config))
        except LoweringError:
            continue


def disagreements(runs: list[Run], config: MachineConfig) -> list[str]:
    """Runs the cases on the circuits in one batch; a sentence, with the PTX, for each that goes wrong."""
    generated, simulator = run_circuits(
        machine(config), [run.result.prompt for run in runs], max(run.passes for run in runs)
    )
    found = []
    for index, (run, tokens) in enumerate(zip(runs, generated, strict=True)):
        if tokens != run.result.tokens:
            found.append(f"tokens differ from the emulator's\n{run.case.text}")
        found += differences(run.case, run.result.bound, memory_words(simulator, index, config))
    return found


def differences(case: Case, bound: BoundLaunch, memory: NDArray[np.uint32]) -> list[str]:
    """A sentence, with the PTX, for each array that the interpreter ends with otherwise."""
    reference = interpreter(case.text)
    reference.run(200_000)
    return [
        f"{name} differs from the interpreter's\n{case.text}"
        for name in case.written
        if not np.array_equal(array_of(bound, memory, name), reference.array(name))
    ]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=250)
    arguments = parser.parse_args()
    start = time.perf_counter()
    cases = draw(arguments.count, mixed(SMALL.lanes), arguments.seed)
    runs = sorted(emulated(cases, SMALL), key=lambda run: run.passes)  # of like length in a batch
    print(f"{len(runs)} of {len(cases)} programs fit the machine", flush=True)
    wrong = 0
    for first in range(0, len(runs), arguments.batch):
        batch = runs[first : first + arguments.batch]
        for sentence in disagreements(batch, SMALL):
            wrong += 1
            print(sentence)
        done = runs[: first + len(batch)]
        print(
            f"{len(done)} programs, {sum(len(run.result.tokens) for run in done)} tokens: {wrong} wrong, "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    _main()
