"""The terminal user interface.  Importing it is cheap; textual is loaded when the debugger opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from qdbg.ui.curtain import curtain

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

#: Seconds that the session's thread gets to end after the screen is closed.
_PATIENCE = 1.0


def run_debugger(
    open_session: Callable[[Callable[[str, float | None], None]], Session],
    title: str,
    lines: tuple[str, ...],
    language: str,
    describe: Callable[[Exception], tuple[str, int]] = lambda error: (str(error), 2),
) -> int:
    """Open the debugger and return its exit status.

    open_session: makes a started session, in a thread of its own; it is given a function to report what
    it does and the fraction done (None if unknown), which raises `Interrupted` once the user has left.
    lines, language ("cuda" or "ptx"): the kernel's file, shown until the session is open.  describe: an
    error as one sentence and an exit status.
    """
    with curtain(title, lines, sys.__stderr__):  # where Textual draws, too
        from qdbg.ui.app import DebuggerApp

        app = DebuggerApp(open_session, title, lines, language, describe)
    app.run()
    status = app.status
    if app.error is not None:
        # The screen is closed: now the sentence can stay where the user looks.
        sentence, status = describe(app.error)
        print(f"qdbg: {sentence}", file=sys.stderr)
    if not app.runner.join(_PATIENCE):
        # The thread is inside something that cannot be interrupted, the import of a library for
        # instance.  Nothing of the session outlives the process, so it need not be waited for.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status
