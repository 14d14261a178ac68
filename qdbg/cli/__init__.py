"""The `qdbg` command."""

from __future__ import annotations

import sys
from typing import NoReturn

from qdbg.cli import process


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; every failure ends as one sentence on stderr.

    Without arguments they are the process's, and so are its streams and signals.
    """
    if arguments is not None:
        sys.exit(_run(arguments))
    try:
        process.own()
        status = _run(sys.argv[1:])
    except KeyboardInterrupt:
        # Where no command was there to report it: while modules load, or while a report is written.
        if "--json" in sys.argv:
            sys.stdout.write('{"error": "interrupted"}\n')
        sys.stderr.write("qdbg: interrupted\n")
        status = process.INTERRUPTED
    process.leave(status)


def _run(arguments: list[str]) -> int:
    """The exit status."""
    # Loading takes its time, and ctrl+c must end with a sentence from the start.
    from qdbg.cli.failure import describe, report
    from qdbg.cli.group import cli

    try:
        status = cli.main(arguments, prog_name="qdbg", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        return report(*describe(error), as_json="--json" in arguments)
    return status if isinstance(status, int) else 0
