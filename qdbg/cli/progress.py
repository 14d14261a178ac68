"""What a person is told on stderr while a command works: progress, and a cache that was mended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from qdbg.runtime.engine import Progress

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint

#: Work shorter than this shows nothing, and a line is rewritten no more often.
_PATIENCE = 0.3


@contextmanager
def progress_line(what: str) -> Iterator[Progress]:
    """Hands out a `Progress` that rewrites one line, and clears it at the end; silent in a pipe."""
    shown = False
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if not sys.stderr.isatty() or now - last < _PATIENCE:
            return
        last, shown = now, True
        share = f"{100 * done // total:3}%" if total else f"{done}"
        sys.stderr.write(f"\r\x1b[K{what} {share}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def tell_note(checkpoint: Checkpoint | None) -> None:
    """Say that a damaged checkpoint was built again, if it was."""
    if checkpoint is not None and checkpoint.note is not None:
        click.echo(f"qdbg: {checkpoint.note}", err=True)
