"""What a person is told on stderr while a command works: progress, and a cache that was mended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.engine import Progress

#: Work shorter than this shows nothing, and a line is rewritten no more often.
_PATIENCE = 0.3
_WIDTH = 24
#: What `runtime.sparse.native` does when it is used for the first time.
COMPILING = "compiling the engine, once on this computer"


@contextmanager
def progress_line(what: str) -> Iterator[Progress]:
    """Hands out a `Progress` that rewrites one line, and clears it at the end; silent in a pipe."""
    shown = False
    start = last = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown, start, last
        now = time.monotonic()
        if not start:
            start = last = now
        if not sys.stderr.isatty() or now - last < _PATIENCE:
            return
        last, shown = now, True
        sys.stderr.write(f"\r\x1b[K{what} {share(done, total, now - start)}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def share(done: int, total: int, elapsed: float) -> str:
    """How far work is after so many seconds: a bar and the time left; a count where there is no total."""
    if not total:
        return f"{done:,}"
    bar = "█" * (_WIDTH * done // total)
    left = f", about {elapsed * (total - done) / done:,.0f} s left" if done else ""
    return f"{bar:░<{_WIDTH}} {100 * done // total:3}%{left}"


def tell_note(checkpoint: Checkpoint | None) -> None:
    """Say that a damaged checkpoint was built again, if it was."""
    if checkpoint is not None and checkpoint.note is not None:
        click.echo(f"qdbg: {checkpoint.note}", err=True)
