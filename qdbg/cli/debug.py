"""`qdbg KERNEL`: the debugger."""

from __future__ import annotations

from pathlib import Path

import click

from qdbg.cli.options import engine_option, kernel_argument, launch_options
from qdbg.runtime.launcher import LaunchOptions


@click.command(hidden=True)
@kernel_argument
@launch_options
@engine_option
def debug(kernel: Path, launch: LaunchOptions, engine: str) -> int | None:
    """Open the debugger on a kernel."""
    raise NotImplementedError
