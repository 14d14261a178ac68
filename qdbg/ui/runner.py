"""The session's thread: opens it, carries out what the app asks for, and says how it goes.

It touches no widget.  Everything is posted to the app as messages, running progress at most
`RATE` times a second and always one message at the end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from qdbg.runtime.control import Control, Glimpse
from qdbg.runtime.view import View

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

#: Called with what is being done and the fraction that is done, if known.
Report = Callable[[str, "float | None"], None]
OpenSession = Callable[[Report], "Session"]
#: Work for the session; returns a note for the message line.
Job = Callable[["Session", Control], str]

RATE = 25.0
#: Keys typed ahead beyond this are dropped: a key held down must not run on after its release.
AHEAD = 2


@dataclass
class Opening(Message):
    """The session is being opened."""

    text: str
    fraction: float | None


@dataclass
class Opened(Message):
    """The session stands at its first stop."""

    session: Session
    view: View


@dataclass
class Running(Message):
    """The machine runs."""

    glimpse: Glimpse


@dataclass
class Stopped(Message):
    """A job is done."""

    view: View
    note: str


@dataclass
class Failed(Message):
    """Something raised; `opening` when there is no session to go on with."""

    error: Exception
    opening: bool


class Runner:
    """Runs one session in a thread of its own."""

    def __init__(self, open_session: OpenSession, post: Callable[[Message], object]):
        self._open = open_session
        self._post = post
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._cancelled = threading.Event()
        self._closing = threading.Event()
        self._last = 0.0
        self.busy = True
        # A daemon: the program may end in the middle of a long import, with nothing lost.
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)

    def start(self) -> None:
        """Begin to open the session."""
        self._thread.start()

    def submit(self, job: Job) -> bool:
        """Queue a job; False when enough is waiting already."""
        if self._jobs.qsize() >= AHEAD:
            return False
        if not self.busy:
            self._cancelled.clear()
        self.busy = True
        self._jobs.put(job)
        return True

    def interrupt(self) -> bool:
        """Stop the running job and forget those that wait; False if nothing runs."""
        if not self.busy:
            return False
        self._cancelled.set()
        return True

    def close(self) -> None:
        """Ask the thread to end at its next chance."""
        self._closing.set()
        self._cancelled.set()
        self._jobs.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the thread to end; whether it did (or never began)."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        from qdbg.runtime.engine import Interrupted  # loads numpy, which the first picture does not need

        try:
            session = self._open(self._report)
            view = session.view()
        except Interrupted:
            return
        except Exception as error:
            self._finish(Failed(error, opening=True))
            return
        self._finish(Opened(session, view))
        control = Control(self._cancelled.is_set, self._progress)
        while (job := self._jobs.get()) is not None and not self._closing.is_set():
            message: Message
            try:
                note = "interrupted" if self._cancelled.is_set() else job(session, control)
                message = Stopped(session.view(), note)
            except Exception as error:
                message = Failed(error, opening=False)
            self._finish(message)

    def _finish(self, message: Message) -> None:
        if self._jobs.empty():
            self.busy = False
            self._cancelled.clear()
        if not self._closing.is_set():
            self._post(message)

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._last < 1 / RATE:
            return False
        self._last = now
        return True

    def _report(self, text: str, fraction: float | None = None) -> None:
        if self._closing.is_set():
            from qdbg.runtime.engine import Interrupted

            raise Interrupted("the debugger was closed")
        if self._due() or fraction is None:
            self._post(Opening(text, fraction))

    def _progress(self, glimpse: Glimpse) -> None:
        if self._due() and not self._closing.is_set():
            self._post(Running(glimpse))
