"""Several launches run to their end: as one batch where the engine has batches, else one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from qdbg.runtime.control import ALONE, Control
from qdbg.runtime.engine import Engine, Interrupted
from qdbg.runtime.launcher import Prepared, open_session
from qdbg.runtime.outcome import Outcome, PassLimit, conclude, run

if TYPE_CHECKING:
    from qdbg.runtime.batch import Row
    from qdbg.runtime.session import Session


@runtime_checkable
class Batching(Protocol):
    """An engine that can run several launches as one batch."""

    def batch(self, prompts: Sequence[Sequence[int]]) -> list[Row]:
        """An engine for each prompt.  They are driven in turn, a pass each, until each is closed."""
        ...


@dataclass(frozen=True, eq=False)
class Ended:
    """A launch that is over; number: its place among those that were asked for, from 0.

    The session's engine stands at the end of the launch until the next one is asked for.
    """

    number: int
    session: Session
    result: Outcome | PassLimit


def run_together(
    launches: Sequence[Prepared], engine: Engine, pass_limit: int, control: Control = ALONE
) -> Iterator[Ended]:
    """The launches, in the order in which they end.  Raises what `prefill` and `step` do, and Interrupted.

    The seconds of a launch in a batch are those from the start of the batch to the launch's end.
    """
    if isinstance(engine, Batching) and len(launches) > 1:
        yield from _batch(launches, engine, pass_limit, control)
        return
    for number, prepared in enumerate(launches):
        session = open_session(prepared, engine, "", pass_limit)
        session.start()
        try:
            result: Outcome | PassLimit = run(session, control)
        except PassLimit as limit:
            result = limit
        yield Ended(number, session, result)


def _batch(
    launches: Sequence[Prepared], engine: Batching, pass_limit: int, control: Control
) -> Iterator[Ended]:
    start = time.perf_counter()
    rows = engine.batch([prepared.image.ids for prepared in launches])
    running = [
        (number, row, open_session(prepared, row, "", pass_limit))
        for number, (prepared, row) in enumerate(zip(launches, rows, strict=True))
    ]
    for _, _, session in running:
        session.start()
    while running:
        going = []
        for number, row, session in running:
            if _pass(session, control):
                going.append((number, row, session))
                continue
            if control.cancelled():
                raise Interrupted("interrupted")
            try:
                result: Outcome | PassLimit = conclude(session, time.perf_counter() - start)
            except PassLimit as limit:
                result = limit
            yield Ended(number, session, result)
            row.close()
        running = going


def _pass(session: Session, control: Control) -> bool:
    """Make a launch's next forward pass; False where it was the last one."""
    goes_on = False

    def forward() -> None:
        nonlocal goes_on
        goes_on = session.forward(control)

    session.run(forward, "pass")
    return goes_on
