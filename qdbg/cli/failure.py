"""How a command fails: one sentence on stderr, an exit status, with --json an object on stdout too."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable
from enum import IntEnum

import click


class Exit(IntEnum):
    """Exit statuses of every command."""

    OK = 0  #: exact and as expected
    MISMATCH = 1  #: engine and interpreter, or result and expectation, disagree
    USAGE = 2  #: wrong usage, unreadable or uncompilable input
    UNSUPPORTED = 3  #: the kernel needs something that is not supported, or trapped
    INTERRUPTED = 130  #: ctrl+c


#: Exceptions of the other packages that carry a sentence for the user.
_STATUS = {
    ("qdbg.compiler.source", "SourceError"): Exit.USAGE,
    ("qdbg.compiler.cuda", "CompileError"): Exit.USAGE,
    ("qdbg.compiler.ptx.ir", "PtxError"): Exit.USAGE,
    ("qdbg.compiler.lowering", "LoweringError"): Exit.UNSUPPORTED,
    ("qdbg.runtime.launch", "LaunchError"): Exit.USAGE,
    ("qdbg.runtime.checkpoints", "CheckpointError"): Exit.USAGE,
    ("qdbg.runtime.stock", "EngineError"): Exit.USAGE,
    ("qdbg.runtime.sparse.pack", "CheckpointFormatError"): Exit.USAGE,
    ("qdbg.runtime.outcome", "PassLimit"): Exit.UNSUPPORTED,
    ("qdbg.runtime.trace", "TraceError"): Exit.MISMATCH,
    ("qdbg.runtime.interpreter.errors", "Unsupported"): Exit.UNSUPPORTED,
    ("qdbg.runtime.interpreter.errors", "Fault"): Exit.UNSUPPORTED,
    ("qdbg.runtime.interpreter.errors", "LimitReached"): Exit.UNSUPPORTED,
    ("qdbg.runtime.commands", "CommandError"): Exit.USAGE,
    ("qdbg.runtime.breakpoints", "BreakpointError"): Exit.USAGE,
    ("qdbg.runtime.bench", "BenchError"): Exit.MISMATCH,
    ("qdbg.runtime.gpu", "NoGpu"): Exit.UNSUPPORTED,
    ("qdbg.runtime.engine", "Interrupted"): Exit.INTERRUPTED,
}


def worst(statuses: Iterable[int]) -> Exit:
    """What a command exits with that did several things: a mismatch counts most, then what could not be
    run, then what is not supported.
    """
    found = set(statuses)
    return next((s for s in (Exit.MISMATCH, Exit.USAGE, Exit.UNSUPPORTED) if s in found), Exit.OK)


class Failure(Exception):
    """Ends the command with this sentence and this status."""

    def __init__(self, sentence: str, status: Exit = Exit.USAGE):
        super().__init__(sentence)
        self.status = status


def describe(error: Exception) -> tuple[str, Exit]:
    """The sentence and the exit status for whatever ended a command."""
    if isinstance(error, Failure):
        return str(error), error.status
    if isinstance(error, click.exceptions.Abort):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.message, err=True)
        return "name a kernel (a .cu or .ptx file) or a command", Exit.USAGE
    if isinstance(error, click.ClickException):
        return error.format_message().rstrip("."), Exit.USAGE
    if (status := _status_of(error)) is not None:
        return str(error), status
    if isinstance(error, OSError):
        return _file_sentence(error), Exit.USAGE
    if os.environ.get("QDBG_TRACEBACK"):
        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"internal error, please report it (QDBG_TRACEBACK=1 shows where): {what}", Exit.USAGE


def _file_sentence(error: OSError) -> str:
    """What is wrong with a file, in the words of `compiler.source`."""
    if error.filename is None:
        return error.strerror or str(error)
    reasons = {FileNotFoundError: "there is no such file", IsADirectoryError: "this is a directory"}
    return f"{error.filename}: {reasons.get(type(error), error.strerror)}"


def _status_of(error: Exception) -> Exit | None:
    """The status of an exception whose text is a sentence for the user."""
    for (module, name), status in _STATUS.items():
        # A class whose module was never loaded was never raised.
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return status
    return None


def first_of(sentences: Iterable[str]) -> dict[str, str]:
    """What a command that did several things adds to its object: the first failure as "error", if any."""
    sentence = next(iter(sentences), None)
    return {} if sentence is None else {"error": sentence}


def complain(sentences: Iterable[str]) -> None:
    """Print the failures of such a command, behind what it has printed."""
    sys.stdout.flush()
    for sentence in sentences:
        click.echo(f"qdbg: {sentence}", err=True)


def report(sentence: str, status: Exit, as_json: bool) -> int:
    """Print the failure, once for people and, with --json, once for programs."""
    sentence = " ".join(sentence.split("\n")) if as_json else sentence
    click.echo(f"qdbg: {sentence}", err=True)
    if as_json:
        click.echo(json.dumps({"error": sentence}))
    sys.stdout.flush()
    return int(status)
