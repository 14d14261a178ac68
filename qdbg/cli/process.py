"""The process around a command: streams that may be closed, full or left by their reader, and ctrl+c."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

INTERRUPTED = 130  #: exit status after ctrl+c, also in `failure.Exit`


class Output(io.FileIO):
    """A file descriptor that takes what is written to it, wherever it leads.

    Once a reader has left (`| head`) the rest goes nowhere, and the command keeps its own status.
    Other failures raise an OSError that names the stream, once; of stderr nobody could be told.
    """

    def __init__(self, descriptor: int, stream: str, silent: bool):
        super().__init__(descriptor, "w", closefd=False)
        self.stream, self.silent = stream, silent

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not self.silent and not isinstance(error, BrokenPipeError):
                cure = f"{error.strerror}; send it elsewhere"
                raise OSError(error.errno, cure, self.stream) from None
            return memoryview(data).nbytes


def own() -> None:
    """Take charge of the process's streams and of ctrl+c."""
    signal.signal(signal.SIGINT, _interrupt)
    for descriptor, mode in enumerate("rww"):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: whatever was opened next would get its number, and be written to
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            file = open(descriptor, mode, closefd=False)  # noqa: SIM115  it lives as long as the process
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], file)
    for name, stream, silent in (("stdout", "standard output", False), ("stderr", "standard error", True)):
        old = getattr(sys, name)
        if not old.isatty():
            raw = io.BufferedWriter(Output(old.fileno(), stream, silent))
            setattr(sys, name, io.TextIOWrapper(raw, old.encoding, old.errors, line_buffering=silent))


def leave(status: int) -> NoReturn:
    """Exit; ctrl+c no longer means anything.  Who pressed it does not wait for Python to tidy up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if status == INTERRUPTED:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """The first ctrl+c unwinds the command, the next does not wait for that."""
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    try:
        os.write(2, b"qdbg: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
