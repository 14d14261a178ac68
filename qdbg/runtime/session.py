"""A debugging session: one launch on one engine, beside the reference interpreter.

The session drives an `Engine` one forward pass at a time and stops where it is asked to, or at the
first disagreement with the interpreter.  It knows nothing of any user interface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.machine.config import WARP, MachineConfig
from qdbg.compiler.machine.isa import Program
from qdbg.compiler.machine.vocabulary import Vocabulary
from qdbg.runtime.breakpoints import Breakpoints
from qdbg.runtime.commands import CommandError
from qdbg.runtime.control import ALONE, Control
from qdbg.runtime.engine import Engine, Progress
from qdbg.runtime.execution import Execution
from qdbg.runtime.history import History
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.log import Place
from qdbg.runtime.picture import Marks, Painter
from qdbg.runtime.view import State, View

if TYPE_CHECKING:
    from qdbg.compiler.source import Source

#: Stops that `back` can return to.
STOPS = 256
PASS_LIMIT = 10_000_000
START = Place(0)


@dataclass(frozen=True, eq=False)
class Stop:
    """A stop that lies behind: where, why, and what each lane showed up to it."""

    place: Place
    state: State
    status: str
    marks: Marks


class Session(Execution):
    """What a person can ask of a launch.  Call `start` once before anything else.

    Operations that run the machine return a note for the person, "" for none; why the machine stopped
    is in `state` and `status`.
    """

    def __init__(
        self,
        source: Source,
        bound: BoundLaunch,
        program: Program,
        engine: Engine,
        interpreter: Interpreter,
        vocabulary: Vocabulary,
        config: MachineConfig,
        prompt: Iterable[int],
        title: str = "",
        geometry: str = "",
        pass_limit: int = PASS_LIMIT,
        history: History | None = None,
    ):
        """prompt: the launch as token ids; title, geometry: launch and checkpoint in a few words;
        pass_limit: forward passes after which a run stops; history: an empty one.
        """
        history = History() if history is None else history
        super().__init__(bound, program, engine, interpreter, vocabulary, pass_limit, history)
        self.source, self.config = source, config
        self.title, self.geometry = title, geometry
        self.prompt = list(prompt)
        self.ptx_lines = source.ptx.lines
        self.cuda_lines = source.cuda_lines
        self.breakpoints = Breakpoints(self.kernel, source.cuda_line)
        self.focus = 0
        self._stops: deque[Stop] = deque(maxlen=STOPS)
        self._hits: list[tuple[Place, int]] = []  # where which breakpoint was hit
        self._painter = Painter(self)

    def start(self, progress: Progress | None = None) -> None:
        """Feed the prompt.  `progress` is called with (tokens done, tokens in all)."""
        self.begin(self.prompt, progress)

    def view(self) -> View:
        """The picture at this stop.  Reads the engine's state."""
        return self._painter.paint()

    def retouched(self, view: View) -> View:
        """The same picture with today's focus and breakpoints; touches neither engine nor interpreter."""
        return replace(view, focus=self.focus, breakpoints=self.breakpoints.all())

    # -- running --------------------------------------------------------------------------------------

    def step(self, count: int = 1, control: Control = ALONE) -> str:
        """Execute PTX instructions, each for all the lanes that are at it."""
        return self._go(lambda: all(self.instruction(control) for _ in range(count)))

    def forwards(self, count: int = 1, control: Control = ALONE) -> str:
        """Make single forward passes."""
        return self._go(lambda: all(self.forward(control) for _ in range(count)), "pass")

    def next_line(self, count: int = 1, control: Control = ALONE) -> str:
        """Run to another CUDA line; without CUDA to another PTX line."""

        def run() -> None:
            for _ in range(count):
                before = self._source_line()
                while self.instruction(control) and self._source_line() in (before, None):
                    pass
                if self.state is not State.RUNNING:
                    return

        return self._go(run)

    def proceed(self, control: Control = ALONE) -> str:
        """Run to a breakpoint, a mismatch or the end."""
        return self._go(lambda: self._run_to(control, frozenset()))

    def run_to(self, line: int, cuda: bool = False, control: Control = ALONE) -> str:
        """Run to a line (or to what stops the machine before)."""
        probe = Breakpoints(self.kernel, self.source.cuda_line)
        target = probe.toggle_cuda(line) if cuda else probe.toggle(line)
        assert target is not None
        return self._go(lambda: self._run_to(control, frozenset(target.indices)))

    def finish_block(self, control: Control = ALONE) -> str:
        """Run to the end of the block."""
        block = self.block

        def run() -> None:
            self._run_to(control, frozenset(), lambda: self.block != block)

        return self._go(run)

    # -- going back -----------------------------------------------------------------------------------

    def reverse_step(self, count: int = 1, control: Control = ALONE) -> str:
        """Go back PTX instructions, in front of the newest one first."""
        places = [place for place, _ in islice(self.log.earlier(self.place), count)]
        return self._return(places[-1] if len(places) == count else START, "step back", control)

    def reverse_forwards(self, count: int = 1, control: Control = ALONE) -> str:
        """Take back single forward passes."""
        passes = max(0, len(self.tokens) - count)
        return self._return(Place(passes, self.log.skips(passes)), "pass back", control)

    def reverse_line(self, count: int = 1, control: Control = ALONE) -> str:
        """Go back to where this CUDA line (PTX line without CUDA) began, or the one before."""
        places = list(islice(self.log.arrivals(self.place, self._line), count))
        return self._return(places[-1] if len(places) == count else START, "line back", control)

    def reverse_proceed(self, control: Control = ALONE) -> str:
        """Go back to the last breakpoint that was come by, or to the start."""
        for place, index in self.log.earlier(self.place):
            if self.breakpoints.has(index):
                return self._return(place, "back at a breakpoint", control)
            if control.cancelled():
                return "interrupted"
        return self._return(START, "", control)

    def back(self, count: int = 1, control: Control = ALONE) -> str:
        """Return to an earlier stop."""
        if not self._stops:
            return "there is no stop before this one"
        return self._return(self._stops[-min(count, len(self._stops))].place, "", control)

    def restart(self) -> str:
        """Return to the start of the launch."""
        self._return(START, "", ALONE)
        return "restarted"

    def _return(self, place: Place, status: str, control: Control) -> str:
        """Be at a place that is not behind here, as if the machine had never gone further."""
        if place == self.place == START:
            return "this is the start of the launch"
        arrived = self.travel(place, control)
        stop: Stop | None = None
        while self._stops and self._stops[-1].place >= self.place:
            stop = self._stops.pop()
        self._painter.recall(self._stops[-1].marks if self._stops else None)
        while self._hits and self._hits[-1][0] > self.place:
            self.breakpoints.withdraw(self._hits.pop()[1])
        if not arrived:
            self.stop(State.STOPPED, "interrupted")
        elif stop is not None and stop.place == place:
            self.stop(stop.state, stop.status)
        elif place == START:
            self.stop(State.READY, "at the start")
        else:
            self.stop(State.STOPPED, status)
        return ""

    # -- inside a run ---------------------------------------------------------------------------------

    def _go(self, operation: Callable[[], object], status: str = "step") -> str:
        if self.ended:
            return f"the launch is over ({self.status})"
        self._stops.append(Stop(self.place, self.state, self.status, self._painter.marks))
        self.run(operation, status)
        # What went wrong is looked at in the lane where it did.
        if self.state is State.TRAPPED and self.trace.trap is not None:
            self.focus = self.trace.trap[0]
        elif self.state is State.MISMATCH and self.mismatch is not None and self.mismatch.lane is not None:
            self.focus = (self.mismatch.warp or 0) * WARP + self.mismatch.lane
        return ""

    def _run_to(
        self, control: Control, targets: frozenset[int], until: Callable[[], bool] = lambda: False
    ) -> None:
        """Run until a breakpoint, one of the PTX instructions `targets`, or `until`."""
        moved = False
        while not until():
            at = self.position() if targets or self.breakpoints.all() else None
            if at is not None:
                path = self.map.path(*at)
                # Where the run starts nothing stops it: that is where it was stopped before.
                if self._arrived(path, path if moved else path[1:], targets):
                    return
            if not self.anchored(control):
                return
            moved = True
        self.stop(State.STOPPED, "end of the block")

    def _arrived(self, path: tuple[int, ...], ahead: tuple[int, ...], targets: frozenset[int]) -> bool:
        """Stop at the first breakpoint or target among the instructions `ahead`, the end of `path`."""
        goal = next((i for i in ahead if i in targets or self.breakpoints.has(i)), None)
        if goal is None:
            return False
        for index in path[: path.index(goal)]:
            self.skip(index)
        hit = self.breakpoints.hit(goal)
        if hit is not None:
            self._hits.append((self.place, hit.number))
        self.stop(State.STOPPED, f"breakpoint {hit.number}, hit {hit.hits}" if hit else "reached")
        return True

    def _source_line(self) -> int | None:
        """The line that `next` counts by."""
        at = self.position()
        return self._line(at[0]) if at is not None else None

    def _line(self, index: int) -> int | None:
        instruction = self.kernel.body[index]
        return instruction.line if self.cuda_lines is None else self.source.cuda_line(instruction)

    # -- breakpoints and focus --------------------------------------------------------------------------

    def toggle_breakpoint(self, line: int, cuda: bool = False) -> str:
        """Set or remove a breakpoint at the first instruction at or behind a line."""
        made = self.breakpoints.toggle_cuda(line) if cuda else self.breakpoints.toggle(line)
        if made is None:
            return "breakpoint removed"
        at = f"CUDA line {made.cuda_line}, PTX line {made.line}" if made.cuda_line else f"line {made.line}"
        return f"breakpoint {made.number} at {at}"

    def set_focus(self, lane: int) -> str:
        """Look at another lane of the warp."""
        start = self.focus // WARP * WARP
        count = min(WARP, self._threads - start)
        if not 0 <= lane < count:
            warp = f"warp {start // WARP}" if self._threads > WARP else "the block"
            raise CommandError(f"there is no lane {lane}: {warp} has lanes 0 to {count - 1}")
        return self._look_at(start + lane)

    def turn_focus(self, by: int) -> str:
        """Look at a neighbouring lane of the warp, from the last on to the first."""
        start = self.focus // WARP * WARP
        return self._look_at(start + (self.focus - start + by) % min(WARP, self._threads - start))

    def turn_warp(self, by: int) -> str:
        """Look at a neighbouring warp, from the last on to the first.  Raises CommandError for one alone."""
        warps = -(-self._threads // WARP)
        if warps == 1:
            raise CommandError(f"the block's {self._threads} threads are one warp")
        warp, lane = divmod(self.focus, WARP)
        return self._look_at(min((warp + by) % warps * WARP + lane, self._threads - 1))

    def _look_at(self, thread: int) -> str:
        self.focus = thread
        warp, lane = divmod(thread, WARP)
        return f"warp {warp} lane {lane}" if self._threads > WARP else f"lane {lane}"

    def keep_history(self, megabytes: int | None) -> str:
        """Set the memory for snapshots (None: leave it), and say how much is used."""
        if megabytes is not None:
            self.history.budget = megabytes << 20
        used, budget = self.history.used / 2**20, self.history.budget >> 20
        count = len(self.history)
        return f"{count:,} snapshot{'s' * (count != 1)} in {used:.1f} of {budget:,} MB"

    def describe(self, name: str) -> str:
        """A register in every lane, or an array, as one line of text."""
        return self._painter.describe(name)

    @property
    def _threads(self) -> int:
        return int(np.count_nonzero(self.trace.exists))
