"""`qdbg KERNEL`: the debugger."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qdbg.cli.failure import Failure, describe
from qdbg.cli.options import (
    DEFAULT_HISTORY,
    history_option,
    kernel_argument,
    launch_options,
    max_passes_option,
    model_option,
    stock_options,
)
from qdbg.cli.progress import COMPILING
from qdbg.compiler.files import read_regular
from qdbg.runtime.launch_options import STOCK, LaunchOptions, StockOptions

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

#: Tells the screen what is being done, and how much of it is (None if unknown).
Report = Callable[[str, "float | None"], None]


@click.command(hidden=True)
@kernel_argument
@launch_options
@model_option
@stock_options
@max_passes_option
@history_option
def debug(
    kernel: Path, launch: LaunchOptions, engine: str, stock: StockOptions, max_passes: int, history_mb: int
) -> int:
    """Open the debugger on a kernel."""
    if engine == "interpreter":
        raise Failure("the debugger steps a machine beside the interpreter; for the latter alone: qdbg run")
    # The file is read here, so that a wrong name ends before a screen opens.  All else is slower and
    # happens behind the first picture, complaints about the file's content included.
    lines = tuple(read_regular(kernel).decode("utf-8-sig", errors="replace").splitlines())
    # The screen is drawn on stderr.  A stream that was closed before the start is None.
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Failure(
            f"the debugger needs a terminal as its stdin, stdout and stderr; without one: qdbg run {kernel}"
        )
    from qdbg.ui import run_debugger

    language = "ptx" if kernel.suffix == ".ptx" else "cuda"
    open_session = opener(kernel, launch, engine, max_passes, history_mb, stock)
    return run_debugger(open_session, kernel.name, lines, language, describe)


def opener(
    kernel: Path,
    launch: LaunchOptions,
    engine_name: str,
    max_passes: int,
    history_mb: int = DEFAULT_HISTORY,
    stock: StockOptions = STOCK,
) -> Callable[[Report], Session]:
    """What opens the session, in a thread of the debugger's."""

    def open_session(report: Report) -> Session:
        from qdbg.compiler.machine.config import NANO
        from qdbg.runtime import launcher

        report(f"compiling {kernel.name}", None)
        prepared = launcher.prepare(kernel, launch, NANO)
        prepared.image  # noqa: B018  what cannot be lowered must fail before a checkpoint is built
        report(f"opening the {engine_name} engine", None)
        engine, checkpoint = launcher.open_engine(
            engine_name,
            NANO,
            lambda done, total: report("building the machine", done / total),
            stock,
            lambda done, total: report(COMPILING, done / total),
        )
        geometry = checkpoint.geometry if checkpoint else "no model"
        if checkpoint and checkpoint.note:
            geometry += " (the cached one was damaged: built again)"
        session = launcher.open_session(prepared, engine, geometry, max_passes, history_mb)
        session.start(lambda done, total: report("reading the prompt", done / total))
        return session

    return open_session
