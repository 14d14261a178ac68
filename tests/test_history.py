"""Going back: every earlier stop looks as it did, whatever way and however few snapshots lead there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fakes
import numpy as np
import pytest
from fakes import CUDA, LINE, STORE_LINE, SUM_LINE

from qdbg.cli.debug import opener
from qdbg.compiler.machine.config import TINY
from qdbg.runtime.commands import SESSION_COMMANDS, CommandError, lookup
from qdbg.runtime.control import Control
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.history import History, Moment, weight
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.log import Log, Place
from qdbg.runtime.session import Session
from qdbg.runtime.trace import Trace
from qdbg.runtime.view import State

DOT = Path(__file__).parent.parent / "kernels" / "dot.cu"
ENOUGH = 1 << 30


def picture(session: Session) -> dict[str, Any]:
    """All that a person sees at a stop."""
    seen = dict(vars(session.view()))
    seen["memory"] = [
        (a.machine.tolist(), a.interpreter.tolist(), a.changed.tolist()) for a in seen["memory"]
    ]
    seen["registers"] = [
        {name: part if isinstance(part, str | bool) else list(part) for name, part in vars(row).items()}
        for row in seen["registers"]
    ]
    return seen


def lines(session: Session, move: Callable[[], str], count: int) -> list[int | None]:
    """The PTX line after each of so many moves."""
    found = []
    for _ in range(count):
        move()
        found.append(session.view().line)
    return found


def stepped() -> tuple[Session, list[dict[str, Any]]]:
    """A session that has been stepped to its end, and what was seen at every stop."""
    session = fakes.session()
    pictures = [picture(session)]
    while not session.ended:
        session.step()
        pictures.append(picture(session))
    return session, pictures


@pytest.mark.parametrize("budget", [ENOUGH, 0])
@pytest.mark.parametrize("every", [1, 7, 1000])
def test_reverse_step_undoes_step(budget: int, every: int) -> None:
    session = fakes.session(history=History(budget, every))
    pictures = [picture(session)]
    while not session.ended:
        session.step()
        pictures.append(picture(session))
    for expected in reversed(pictures[:-1]):
        assert session.reverse_step() == ""
        assert picture(session) == expected
    assert session.state is State.READY
    assert "start of the launch" in session.reverse_step()


def test_reverse_steps_after_a_run_go_by_every_instruction() -> None:
    _, pictures = stepped()
    forth = [p["line"] for p in pictures[:-1]]
    session = fakes.session()
    session.proceed()
    assert lines(session, session.reverse_step, len(forth)) == forth[::-1]
    session.proceed()
    session.reverse_step(7)
    assert session.view().line == forth[-7]
    session.reverse_step(1000)
    assert picture(session) == pictures[0]


def test_going_on_after_going_back_ends_the_same() -> None:
    reference, _ = stepped()
    session = fakes.session(history=History(ENOUGH, 5))
    session.proceed()
    session.reverse_step(9)
    assert len(session.tokens) < len(reference.tokens)
    session.proceed()
    assert session.tokens == reference.tokens
    assert session.status == "ended, exact"
    assert session.view().memory[0].machine.tolist() == [1, 3, 6, 10]


def test_reverse_pass_undoes_pass() -> None:
    session = fakes.session(history=History(ENOUGH, 4))
    pictures = []
    for _ in range(20):
        pictures.append(picture(session))
        session.forwards()
    for expected in reversed(pictures):
        session.reverse_forwards()
        assert picture(session) == expected


def test_reverse_pass_from_a_free_instruction_undoes_the_newest_pass() -> None:
    session = fakes.session()
    session.run_to(LINE["mul.wide.s32 %rd2, %r1, 4"])
    passes = len(session.tokens)
    session.step(2)  # free: no pass
    assert session.place == Place(passes, 2)
    session.reverse_forwards()
    assert session.place == Place(passes - 1)


def test_reverse_next_stops_where_a_cuda_line_begins() -> None:
    session = fakes.session()
    session.run_to(STORE_LINE)
    seen = []
    while session.state is not State.READY:
        session.reverse_line()
        seen.append(session.view().cuda_line)
    # Four rounds of the loop (line 6, then its condition in 5), for the lane that stays longest.
    assert seen == [7, *[5, 6] * 4, 3]
    assert all(CUDA[line - 1].strip() for line in seen if line)


def test_reverse_continue_and_hits() -> None:
    session = fakes.session()
    session.toggle_breakpoint(SUM_LINE)

    def hits() -> int:
        return session.breakpoints.all()[0].hits

    places = []
    while not session.ended:
        session.proceed()
        places.append((session.place, session.status))
    assert hits() == 4
    for place, status in reversed(places[:-1]):
        session.reverse_proceed()
        assert (session.place, session.status) == (place, status)
    assert hits() == 1
    session.reverse_proceed()
    assert (session.state, hits()) == (State.READY, 0)
    session.proceed()
    assert session.status == "breakpoint 1, hit 1"
    session.run_to(STORE_LINE)  # the breakpoint comes first
    session.toggle_breakpoint(SUM_LINE)
    session.restart()  # takes back hits of a breakpoint that is gone
    assert session.breakpoints.all() == ()


def test_reverse_continue_finds_a_breakpoint_that_was_set_later() -> None:
    session = fakes.session()
    session.proceed()
    session.toggle_breakpoint(LINE["add.s64 %rd4, %rd3, %rd2"])  # a free instruction
    session.reverse_proceed()
    assert session.view().line == LINE["add.s64 %rd4, %rd3, %rd2"]
    assert session.status == "back at a breakpoint"
    session.step()
    assert session.view().line == STORE_LINE


def test_back_through_a_mismatch() -> None:
    session = fakes.session(fakes.program(step=-2), pass_limit=60, history=History(ENOUGH, 6))
    session.proceed()
    found, at = picture(session), session.place
    session.step(3)
    session.back()
    assert picture(session) == found
    session.reverse_step()
    assert session.mismatch is None
    assert session.state is State.STOPPED
    session.proceed()
    assert (session.state, session.place) == (State.MISMATCH, at)


def test_back_from_a_trap() -> None:
    session = fakes.session(elements=3)
    session.run_to(STORE_LINE)
    before = picture(session)
    session.proceed()
    assert session.state is State.TRAPPED
    session.reverse_step()
    assert picture(session) | {"focus": 0} == before
    assert session.trap() is None


def test_back_is_interrupted_at_once() -> None:
    session = fakes.session(history=History(0))
    session.proceed()
    looked: list[None] = []

    def cancelled() -> bool:
        looked.append(None)
        return len(looked) > 10

    session.reverse_step(1, Control(cancelled))
    assert (session.status, len(session.tokens)) == ("interrupted", 10)
    session.proceed()
    assert session.status == "ended, exact"


class Clock:
    """Stands still unless it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def moment(passes: int, size: int = 1 << 20, engine: Any = None) -> Moment:
    trace = Trace.__new__(Trace)  # never looked at
    content = np.zeros(size, np.uint8) if engine is None else engine
    return Moment(Place(passes), content, None, trace, (), {}, {}, 0, None)


def test_near_past_is_dense_and_far_past_sparse() -> None:
    history = History(40 << 20, 10, Clock())
    history.keep(moment(0))
    for passes in range(10, 10_001, 10):
        assert history.due(passes)
        history.keep(moment(passes))
        assert history.used <= history.budget
    kept = [history.rewind(Place(at)).place.passes for at in range(10_000, -1, -10)]
    gaps = [(10_010 - at, at - found) for at, found in zip(range(10_000, -1, -10), kept, strict=True)]
    assert kept[0] == 10_000  # the newest one is there
    assert kept[-1] == 0  # and the first
    # With n moments whose gaps grow in proportion to their age, each gap is about age * log(span) / n.
    assert all(gap <= 0.5 * age for age, gap in gaps)
    assert all(gap <= 20 for age, gap in gaps if age <= 50)


def test_a_smaller_budget_takes_effect_at_once() -> None:
    history = History(ENOUGH, 10, Clock())
    for passes in range(0, 200, 10):
        history.keep(moment(passes))
    history.budget = 5 << 20
    assert history.used <= 5 << 20
    assert 2 < len(history) < 6
    history.budget = 0
    assert len(history) == 1
    assert not history.due(1000)


def test_slow_passes_leave_more_moments() -> None:
    clock = Clock()
    history = History(ENOUGH, 64, clock)
    history.keep(moment(0))
    assert not history.due(1)
    clock.now = 1.0
    assert history.due(1)
    assert not history.due(0)  # nothing is new


def test_weight_counts_what_is_shared_once() -> None:
    shared, own = np.zeros(1000, np.uint64), np.zeros(10, np.uint8)
    seen: set[int] = set()
    assert 8000 < weight({"a": (shared, [own]), "b": shared}, seen) < 9000
    assert weight(shared, seen) == 0
    history = History(ENOUGH, 1)
    history.keep(moment(0, engine=(shared,)))
    first = history.used
    history.keep(moment(1, engine=(shared, own)))
    assert history.used - first < first


def test_log_forgets_the_future() -> None:
    log = Log(lambda index, anchor: tuple(range(index, anchor + 1)))
    log.stand(0, 0, 1)
    log.stand(4, 2, 2)
    log.skip(4)
    log.stand(6, 3, 4)
    log.skip(6)
    log.skip(6)
    assert [place for place, _ in log.earlier(Place(6, 1))] == [(6, 0), (4, 0), (0, 1), (0, 0)]
    log.truncate(Place(6, 1))
    assert (log.skips(6), log.skips(4)) == (1, 1)
    log.truncate(Place(5))
    assert (log.skips(6), log.skips(4)) == (0, 1)
    assert [index for _, index in log.earlier(Place(9))] == [2, 1, 0]


def test_history_command() -> None:
    session = fakes.session(history=History(3 << 20, 2))
    session.proceed()
    command = lookup(SESSION_COMMANDS, "history")
    assert command is not None
    assert "of 3 MB" in command.run(session, "", Control())
    assert command.run(session, "0", Control()).startswith("1 snapshot in")
    with pytest.raises(CommandError, match="megabytes"):
        command.run(session, "lots", Control())
    session.reverse_step()
    assert session.view().line == LINE["ret"]


def test_emulator_snapshots_have_a_weight() -> None:
    session = fakes.session(engine=Emulator(TINY), history=History(ENOUGH, 1))
    session.proceed()
    assert len(session.history) == len(session.tokens)
    assert session.history.used > 10_000 * len(session.history)


def test_budget_of_the_command_line() -> None:
    open_session = opener(DOT, LaunchOptions(), "emulator", 1000, history_mb=7)
    session = open_session(lambda text, fraction: None)
    assert session.history.budget == 7 << 20
    session.proceed()
    session.reverse_step()
    assert session.state is State.STOPPED
