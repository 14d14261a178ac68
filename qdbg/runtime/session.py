"""A debugging session: one launch on one engine, beside the reference interpreter.

The session drives an `Engine` one forward pass at a time, knows from the tokens where the machine is
(`Trace`), executes the same PTX in the interpreter (`Lockstep`) and stops where it is asked to, or at
the first disagreement.  It knows nothing of any user interface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.isa import Program
from qdbg.compiler.machine.vocabulary import Vocabulary
from qdbg.runtime.breakpoints import Breakpoints
from qdbg.runtime.commands import CommandError
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.engine import Engine, Progress
from qdbg.runtime.lockstep import Lockstep, Mismatch
from qdbg.runtime.picture import Painter
from qdbg.runtime.trace import Event, Trace, TraceError
from qdbg.runtime.view import State, View

if TYPE_CHECKING:
    from qdbg.compiler.source import Source
    from qdbg.runtime.interpreter import Interpreter
    from qdbg.runtime.launch import BoundLaunch

#: Stops that `back` can return to.
HISTORY = 32
#: Tokens kept with their meaning.
RECENT = 400
PASS_LIMIT = 10_000_000


@dataclass(frozen=True)
class Glimpse:
    """Where a running machine is."""

    passes: int
    instructions: int
    hits: int


@dataclass(frozen=True)
class Control:
    """How a long operation hears of an interrupt and says how far it is; both are called every pass."""

    cancelled: Callable[[], bool] = lambda: False
    progress: Callable[[Glimpse], None] = lambda glimpse: None


@dataclass(frozen=True)
class _Moment:
    """Everything that `back` needs to return to a stop."""

    engine: Any
    lockstep: Any
    trace: Trace
    recent: tuple[Event, ...]
    results: dict[int, int]
    seen: dict[str, dict[int, int]]
    tokens: int
    held: int | None
    state: State
    status: str


class Session:
    """See the module.  Call `start` once before anything else."""

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
    ):
        """prompt: the launch as token ids; title: the launch in a few words; geometry: the checkpoint in a few words; pass_limit: forward
        passes after which a run stops.
        """
        self.source, self.bound, self.program = source, bound, program
        self.engine, self.config, self.vocabulary = engine, config, vocabulary
        self.title, self.geometry, self.pass_limit = title, geometry, pass_limit
        self.prompt = list(prompt)
        self.kernel = bound.kernel
        self.ptx_lines = source.ptx.lines
        self.cuda_lines = source.cuda_lines
        self.map = Correspondence(program, self.kernel)
        self.breakpoints = Breakpoints(self.kernel, source.cuda_line)
        self.lockstep = Lockstep(self.map, interpreter, bound)
        self.trace = Trace(program, vocabulary, bound.threads)
        self.tokens: list[int] = []
        self.recent: deque[Event] = deque(maxlen=RECENT)
        self.state, self.status = State.READY, "at the start"
        self.focus = 0
        self.seen: dict[str, dict[int, int]] = {}  #: the last result of each PTX register, by lane
        self._results: dict[int, int] = {}  #: of the instruction at hand, by lane
        self._told: Mismatch | None = None  #: the mismatch that has stopped the machine already
        self._held: int | None = None
        self._history: deque[_Moment] = deque(maxlen=HISTORY)
        self._first: _Moment | None = None
        self._painter = Painter(self)

    # -- opening --------------------------------------------------------------------------------------

    def start(self, progress: Progress | None = None) -> None:
        """Feed the prompt.  `progress` is called with (tokens done, tokens in all)."""
        # The prefill's token is work of the first instruction already: it is held back, so that the
        # first stop stands in front of that instruction.
        self._held = self.engine.prefill(self.prompt, progress)
        self._first = self._moment()

    def view(self) -> View:
        """The picture at this stop.  Reads the engine's state."""
        return self._painter.paint()

    def retouched(self, view: View) -> View:
        """The same picture with today's focus and breakpoints; touches neither engine nor interpreter."""
        return replace(view, focus=self.focus, breakpoints=self.breakpoints.all())

    # -- what a person asks for -----------------------------------------------------------------------

    def step(self, count: int = 1, control: Control = Control()) -> str:
        """Execute PTX instructions; returns a note, "" for none."""
        return self._go(control, lambda: self._instructions(count, control))

    def forward(self, count: int = 1, control: Control = Control()) -> str:
        """Make single forward passes."""
        return self._go(control, lambda: all(self._pass(control) for _ in range(count)), "pass")

    def next_line(self, count: int = 1, control: Control = Control()) -> str:
        """Run to another CUDA line; without CUDA to another PTX line."""

        def run() -> None:
            for _ in range(count):
                before = self._source_line()
                while self._instructions(1, control) and self._source_line() in (before, None):
                    pass
                if self.state is not State.RUNNING:
                    return

        return self._go(control, run)

    def proceed(self, control: Control = Control()) -> str:
        """Run to a breakpoint, a mismatch or the end."""
        return self._go(control, lambda: self._run_to(control, frozenset()))

    def run_to(self, line: int, cuda: bool = False, control: Control = Control()) -> str:
        """Run to a line (or a breakpoint on the way)."""
        probe = Breakpoints(self.kernel, self.source.cuda_line)
        target = probe.toggle_cuda(line) if cuda else probe.toggle(line)
        assert target is not None
        return self._go(control, lambda: self._run_to(control, frozenset({target.index})))

    def finish_block(self, control: Control = Control()) -> str:
        """Run to the end of the block."""

        def run() -> None:
            block = self.trace.block
            self._run_to(control, frozenset(), lambda: self.lockstep.block != block)

        return self._go(control, run)

    def back(self, count: int = 1) -> str:
        """Return to an earlier stop."""
        if not self._history:
            return "this is the earliest stop that is kept: r goes to the start"
        for _ in range(min(count, len(self._history))):
            moment = self._history.pop()
        self._return_to(moment)
        return ""

    def restart(self) -> str:
        """Return to the start of the launch."""
        assert self._first is not None
        self._history.clear()
        self._return_to(self._first)
        self._painter.forget()
        return "restarted"

    def toggle_breakpoint(self, line: int, cuda: bool = False) -> str:
        """Set or remove a breakpoint at the first instruction at or behind a line."""
        made = self.breakpoints.toggle_cuda(line) if cuda else self.breakpoints.toggle(line)
        if made is None:
            return "breakpoint removed"
        at = f"CUDA line {made.cuda_line}, PTX line {made.line}" if made.cuda_line else f"line {made.line}"
        return f"breakpoint {made.number} at {at}"

    def set_focus(self, lane: int) -> str:
        """Look at another lane."""
        threads = int(np.count_nonzero(self.trace.exists))
        if not 0 <= lane < threads:
            raise CommandError(f"there is no lane {lane}: the block has lanes 0 to {threads - 1}")
        self.focus = lane
        return f"lane {lane}"

    def turn_focus(self, by: int) -> str:
        """Look at a neighbouring lane, from the last on to the first."""
        return self.set_focus((self.focus + by) % int(np.count_nonzero(self.trace.exists)))

    def turn_warp(self, by: int) -> str:
        """Look at a neighbouring warp of the block."""
        warps = -(-self.bound.threads // self.config.lanes)
        if warps == 1:
            raise CommandError(f"the block's {self.bound.threads} threads are one warp")
        raise CommandError(f"the machine runs blocks of one warp, this block has {warps}")

    def describe(self, name: str) -> str:
        """A register in every lane, or an array, as one line of text."""
        return self._painter.describe(name)

    # -- the engine's side ----------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """The launch is over."""
        return self.state in (State.ENDED, State.TRAPPED)

    @property
    def mismatch(self) -> Mismatch | None:
        """The first disagreement with the interpreter."""
        return self.lockstep.mismatch

    def position(self) -> tuple[int | None, int | None]:
        """(next PTX instruction, anchor of the machine instruction that comes next); None if there is none."""
        anchor = None if self.ended else self.map.anchor[self.trace.pc]
        if anchor is None:
            return None, None
        lanes = self.trace.lanes
        return self.lockstep.position(lanes, anchor), anchor

    def _go(self, control: Control, run: Callable[[], object], note: str = "step") -> str:
        """Carry an operation out between two stops."""
        if self.ended:
            return f"the launch is over ({self.status})"
        self._history.append(self._moment())
        self.state, self.status = State.RUNNING, note
        try:
            run()
        except TraceError as error:
            self.lockstep.report(len(self.tokens), str(error))
            self._told = self.mismatch
            self._stop(State.MISMATCH, "mismatch")
        if self.state is State.RUNNING:
            self.state = State.STOPPED
        return ""

    def _stop(self, state: State, status: str) -> None:
        self.state, self.status = state, status

    def _instructions(self, count: int, control: Control) -> bool:
        """Whole PTX instructions; False when something else stopped the machine."""
        for _ in range(count):
            index, anchor = self.position()
            if index is not None and index != anchor and anchor is not None:
                self.lockstep.skip(index, self.trace.lanes)
            elif not self._anchored(control):
                return False
        return True

    def _anchored(self, control: Control) -> bool:
        """Passes up to the end of the PTX instruction at hand, and on to the next one's start."""
        done = self.lockstep.completed
        while self.lockstep.completed == done or self._between():
            if not self._pass(control):
                return False
        return True

    def _between(self) -> bool:
        """The machine is about to do, or in the middle of, something that belongs to no PTX instruction."""
        return self.map.anchor[self.trace.pc] is None

    def _run_to(
        self, control: Control, targets: frozenset[int], until: Callable[[], bool] = lambda: False
    ) -> None:
        """Run until a breakpoint, one of the PTX instructions `targets`, or `until`."""
        moved = False
        while not until():
            index, anchor = self.position()
            if index is not None and anchor is not None:
                path = self.map.path(index, anchor)
                ahead = path if moved else path[1:]
                if self._arrived(ahead, path, targets):
                    return
            if not self._anchored(control):
                return
            moved = True
        self._stop(State.STOPPED, "end of the block")

    def _arrived(self, ahead: tuple[int, ...], path: tuple[int, ...], targets: frozenset[int]) -> bool:
        """Stop at the first breakpoint or target among the instructions `ahead`."""
        hit = self.breakpoints.at(ahead)
        reached = [i for i in ahead if i in targets]
        if hit is None and not reached:
            return False
        goal = hit.index if hit is not None else reached[0]
        lanes = self.trace.lanes
        for index in path[: path.index(goal)]:
            self.lockstep.skip(index, lanes)
        self._stop(State.STOPPED, f"breakpoint {hit.number}, hit {hit.hits}" if hit else "reached")
        return True

    def _pass(self, control: Control) -> bool:
        """One forward pass, and the interpreter's part where it finishes a PTX instruction."""
        if control.cancelled():
            self._stop(State.STOPPED, "interrupted")
            return False
        if len(self.tokens) >= self.pass_limit:
            self._stop(State.STOPPED, f"pass limit of {self.pass_limit:,} reached")
            return False
        token = self.engine.step() if self._held is None else self._held
        self._held = None
        self.tokens.append(token)
        lanes = self.trace.lanes
        event = self.trace.feed(token, self.engine.margin())
        self.recent.append(event)
        self._collect(event, lanes)
        control.progress(Glimpse(len(self.tokens), self.lockstep.issued, 0))
        return self._judge()

    def _collect(self, event: Event, lanes: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Gather an instruction's results; at its end let the interpreter do the same."""
        if event.value is not None and event.register is not None:
            targets = np.flatnonzero(lanes) if event.lane is None else (event.lane,)
            self._results.update((int(lane), event.value) for lane in targets)
            self.seen.setdefault(event.register, {}).update(self._results)
        if not event.finished:
            return
        self.lockstep.finished(event, lanes, self._results)
        self._results = {}
        if not self.trace.ended and not self._between():
            self.lockstep.enter(self.trace.block, event.number)

    def _judge(self) -> bool:
        """Whether the machine may go on; else why not."""
        if self.trace.ended:
            trap = self.trace.trap
            if trap is None:
                self.lockstep.end(len(self.tokens), self.engine.state())
            else:
                self.lockstep.trapped(self.trace)
            if self.mismatch is not None:
                self._stop(State.MISMATCH, "mismatch")
            elif trap is not None:
                self._stop(State.TRAPPED, f"trapped: {trap[1].name.lower().replace('_', ' ')}")
            else:
                self._stop(State.ENDED, "ended, exact")
            return False
        if self.mismatch is not self._told:
            self._told = self.mismatch
            self._stop(State.MISMATCH, "mismatch")
            return False
        return True

    def _source_line(self) -> int | None:
        """The line that `next` counts by."""
        index, _ = self.position()
        if index is None:
            return None
        instruction = self.kernel.body[index]
        if self.cuda_lines is None:
            return instruction.line
        return self.source.cuda_line(instruction)

    # -- history --------------------------------------------------------------------------------------

    def _moment(self) -> _Moment:
        return _Moment(
            self.engine.snapshot(), self.lockstep.snapshot(), self.trace.copy(), tuple(self.recent),
            dict(self._results), {name: dict(lanes) for name, lanes in self.seen.items()}, len(self.tokens), self._held, self.state, self.status,
        )  # fmt: skip

    def _return_to(self, moment: _Moment) -> None:
        self.engine.restore(moment.engine)
        self.lockstep.restore(moment.lockstep)
        self.trace = moment.trace.copy()
        self.recent = deque(moment.recent, maxlen=RECENT)
        del self.tokens[moment.tokens :]
        self._held, self.state, self.status = moment.held, moment.state, moment.status
        self.seen = {name: dict(lanes) for name, lanes in moment.seen.items()}
        self._results, self._told = dict(moment.results), self.lockstep.mismatch
