"""A launch in progress: the engine, what its tokens mean, and the interpreter in step with it.

`Execution` knows how to go on by a pass or by a PTX instruction, why the machine stopped, and how to
return to an earlier place.  What a person may ask for is in `session`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import WARP
from qdbg.compiler.machine.isa import Op, Program, Reg
from qdbg.compiler.machine.isa import Trap as Reason
from qdbg.compiler.machine.vocabulary import Vocabulary
from qdbg.runtime.control import Control, Glimpse
from qdbg.runtime.correspondence import Correspondence
from qdbg.runtime.engine import Engine, Progress
from qdbg.runtime.history import History, Moment
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.lockstep import Lockstep
from qdbg.runtime.log import Log, Place
from qdbg.runtime.trace import Event, Trace, TraceError
from qdbg.runtime.view import Block, Mismatch, State, TrapReport, thread_index

#: Tokens kept with their meaning.
RECENT = 400
_SAID = {
    Reason.USER: "the kernel executed trap",
    Reason.ASSERT: "an assertion failed",
    Reason.RECURSION: "the machine has no stack for this call",
}


class Execution:
    """Call `begin` first.

    state, status: what the launch is doing and why it stopped; tokens: every generated id; recent: the
    newest of them as events; seen: PTX register (or half of one) -> its last result by lane, -1 for none;
    holds: machine register -> by lane the PTX register whose result it has, None for something else;
    history, log: the past.
    """

    def __init__(
        self,
        bound: BoundLaunch,
        program: Program,
        engine: Engine,
        interpreter: Interpreter,
        vocabulary: Vocabulary,
        pass_limit: int,
        history: History,
    ):
        self.bound, self.kernel = bound, bound.kernel
        self.program, self.engine, self.pass_limit = program, engine, pass_limit
        self.map = Correspondence(program, self.kernel)
        self.lockstep = Lockstep(self.map, interpreter, bound)
        self.trace = Trace(program, vocabulary, bound.threads)
        self.tokens: list[int] = []
        self.recent: deque[Event] = deque(maxlen=RECENT)
        self.seen: dict[str, NDArray[np.int64]] = {}
        self.holds: dict[Reg, NDArray[np.object_]] = {}
        self.history, self.log = history, Log(self.map.path)
        self.state, self.status = State.READY, "at the start"
        self._skips = 0  # free PTX instructions stepped over since the newest pass
        self._completed = -1  # PTX instructions that were done at the last stand
        self._told: Mismatch | None = None  # the mismatch that has stopped the machine already
        self._held: int | None = None  # a token that the engine made and nobody looked at yet

    def begin(self, prompt: Sequence[int], progress: Progress | None = None) -> None:
        """Feed the prompt.

        The prefill's token is work of the first instruction already: it is held back, so that the first
        stop stands in front of that instruction.
        """
        self._held = self.engine.prefill(prompt, progress)
        self._stand()
        self.history.keep(self._moment())

    # -- where it is ----------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        """Where it is, counted from the start."""
        return Place(len(self.tokens), self._skips)

    @property
    def ended(self) -> bool:
        """The launch is over."""
        return self.state in (State.ENDED, State.TRAPPED)

    @property
    def mismatch(self) -> Mismatch | None:
        """The first disagreement with the interpreter."""
        return self.lockstep.mismatch

    @property
    def block(self) -> Block:
        """blockIdx of the block that runs, or ran last: the machine counts on behind the end of the grid."""
        inside = all(i < size for i, size in zip(self.trace.block, self.bound.grid, strict=True))
        return self.trace.block if inside and self.mismatch is not None else self.lockstep.block

    @property
    def between(self) -> bool:
        """The machine is at something that belongs to no PTX instruction."""
        return self.map.anchor[self.trace.pc] is None

    def position(self) -> tuple[int, int] | None:
        """(next PTX instruction, the one that the machine completes next); None if there is none."""
        anchor = None if self.ended else self.map.anchor[self.trace.pc]
        if anchor is None:
            return None
        return self.lockstep.position(self.trace.lanes, anchor), anchor

    def standing(self) -> tuple[int | None, int | None]:
        """(PTX instruction that comes next or trapped, the one to look at); None if there is none."""
        at, trap = self.position(), self.trace.trap
        next_ = at[0] if at is not None else self.map.trapping(trap[2]) if trap is not None else None
        if self.state is State.MISMATCH and self.mismatch is not None:
            lines = (i.index for i in self.kernel.body if i.line == self.mismatch.line)
            return next_, next(lines, next_)
        if next_ is None:
            works = (self.map.anchor[event.pc] for event in reversed(self.recent))
            return None, next((a for a in works if a is not None), None)
        return next_, next_

    def trap(self) -> TrapReport | None:
        """Where and why the launch trapped, if it did."""
        if self.trace.trap is None:
            return None
        lane, reason, pc = self.trace.trap
        index = self.map.trapping(pc)
        at = self.kernel.body[index] if index is not None else None
        said = reason.name.lower().replace("_", " ")
        if at is not None and reason is Reason.UNSUPPORTED:
            said = f"the machine lacks {self.program.lacking.get(at.index, f'`{at.name}`')}"
        elif at is not None and self.map.barrier(at.index):
            said = "not at this barrier, where the machine needs every thread"
        elif reason in _SAID:
            said = _SAID[reason]
        thread = thread_index(lane, self.bound.block)
        return TrapReport(self.trace.block, thread, *divmod(lane, WARP), at.line if at else None, said)

    # -- going on -------------------------------------------------------------------------------------

    def run(self, operation: Callable[[], object], status: str) -> None:
        """Carry an operation out between two stops; `status` is why it stops if nothing else says."""
        self.state, self.status = State.RUNNING, status
        operation()
        if self.state is State.RUNNING:
            self.state = State.STOPPED

    def stop(self, state: State, status: str) -> None:
        """Note why the machine stops."""
        self.state, self.status = state, status

    def instruction(self, control: Control) -> bool:
        """One PTX instruction; False when something else stopped the machine.

        A free one costs no pass: the interpreter alone goes on.
        """
        at = self.position()
        if at is not None and at[0] != at[1]:
            self.skip(at[0])
            return True
        return self.anchored(control)

    def skip(self, index: int) -> None:
        """Step over a free PTX instruction."""
        self.lockstep.skip(index, self.trace.lanes)
        self._skips += 1
        self.log.skip(len(self.tokens))

    def anchored(self, control: Control) -> bool:
        """Passes up to the end of the PTX instruction at hand, and on to the next one's start."""
        done = self.lockstep.completed
        while self.lockstep.completed == done or self.between:
            if not self.forward(control):
                return False
        return True

    def forward(self, control: Control) -> bool:
        """One forward pass; False when the machine must not go on."""
        if control.cancelled():
            self.stop(State.STOPPED, "interrupted")
            return False
        if len(self.tokens) >= self.pass_limit:
            self.stop(State.STOPPED, f"pass limit of {self.pass_limit:,} reached")
            return False
        if not self._pass():
            self._told = self.mismatch
            self.stop(State.MISMATCH, "mismatch")
            return False
        control.progress(Glimpse(len(self.tokens), self.lockstep.issued))
        return self._goes_on()

    def _pass(self) -> bool:
        """Make one forward pass and follow it; False if its token makes no sense."""
        if self.history.due(len(self.tokens)):
            self.history.keep(self._moment())
        token = self.engine.step() if self._held is None else self._held
        self._held, self._skips = None, 0
        self.tokens.append(token)
        lanes, uniform = self.trace.lanes, self.trace.instruction.uniform
        try:
            event = self.trace.feed(token, self.engine.margin())
        except TraceError as error:
            self.lockstep.report(len(self.tokens), str(error))
            return False
        self.recent.append(event)
        if event.register is not None and event.value is not None:
            # A uniform result is every lane's that is there, which the interpreter knows.
            targets = np.flatnonzero(self.trace.exists).tolist() if event.lane is None else [event.lane]
            self.lockstep.result(event.register, dict.fromkeys(targets, event.value), event.number)
        if event.lane is not None:
            self._see(event, event.lane)
        if event.finished and self.trace.trap is None:
            following = None if self.trace.ended else self.trace.pc
            there = self.lockstep.finished(event, lanes, uniform, following)
            if event.lane is None:
                self._see(event, np.flatnonzero(there))
            if not self.trace.ended and not self.between:
                self.lockstep.enter(self.trace.block, event.number)
                self._stand()
        return True

    def _stand(self) -> None:
        """Log that the machine stands in front of another PTX instruction, if it does."""
        at = self.position()
        if at is not None and self.lockstep.completed > self._completed:
            self._completed = self.lockstep.completed
            self.log.stand(len(self.tokens), *at)

    def _see(self, event: Event, lanes: int | NDArray[np.intp]) -> None:
        """Note the result that lanes have now, and that the machine register has it in these lanes."""
        instr = self.program.code[event.pc]
        if event.value is None or instr.op is Op.CBR:
            return
        # Not in place: moments share what they have in common.
        if event.register is not None:
            before = self.seen.get(event.register)
            seen = np.full(len(self.trace.exists), -1, np.int64) if before is None else before.copy()
            seen[lanes] = event.value
            self.seen[event.register] = seen
        kept = None if instr.dst.uniform else self.holds.get(instr.dst)
        holds = np.full(len(self.trace.exists), None, np.object_) if kept is None else kept.copy()
        holds[lanes] = event.register
        self.holds[instr.dst] = holds

    def _goes_on(self) -> bool:
        """Whether the machine may go on; else notes why not."""
        if self.trace.ended:
            self._end()
            return False
        if self.mismatch is not self._told:
            self._told = self.mismatch
            self.stop(State.MISMATCH, "mismatch")
            return False
        return True

    def _end(self) -> None:
        if self.trace.trap is not None:
            self.lockstep.trapped(self.trace)
            self.stop(State.TRAPPED, f"trapped: {self.trace.trap[1].name.lower().replace('_', ' ')}")
        else:
            self.lockstep.end(len(self.tokens), self.engine.state())
            self.stop(State.ENDED, "ended, exact")
        if self.mismatch is not None:
            self.status = "ended, not exact"

    # -- going back -----------------------------------------------------------------------------------

    def travel(self, place: Place, control: Control) -> bool:
        """Be at an earlier place; what came behind it is forgotten.

        False when that was interrupted: then it is somewhere before.
        """
        moment = self.history.rewind(place)
        self._be_at(moment)
        self.state = State.RUNNING
        while (here := len(self.tokens)) < place.passes and not control.cancelled():
            for _ in range(self.log.skips(here) - self._skips):
                self._skip_again()
            self._pass()
            control.progress(Glimpse(len(self.tokens), self.lockstep.issued))
        arrived = len(self.tokens) == place.passes
        self.log.truncate(self.place)
        while arrived and self._skips < place.skips:
            self._skip_again()
            self.log.skip(place.passes)
        self._told = self.mismatch
        return arrived

    def _skip_again(self) -> None:
        at = self.position()
        assert at is not None
        self.lockstep.skip(at[0], self.trace.lanes)
        self._skips += 1

    def _moment(self) -> Moment:
        """Here and now."""
        return Moment(
            self.place, self.engine.snapshot(), self.lockstep.snapshot(), self.trace.copy(),
            tuple(self.recent), dict(self.seen), dict(self.holds), self._completed, self._held,
        )  # fmt: skip

    def _be_at(self, moment: Moment) -> None:
        """Be where `moment` was taken; it stays valid."""
        self.engine.restore(moment.engine)
        self.lockstep.restore(moment.lockstep)
        self.trace = moment.trace.copy()
        self.recent = deque(moment.recent, maxlen=RECENT)
        self.seen, self.holds = dict(moment.seen), dict(moment.holds)
        del self.tokens[moment.place.passes :]
        self._skips, self._completed, self._held = moment.place.skips, moment.completed, moment.held
