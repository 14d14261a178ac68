"""What a launch of a suite needs and the machine does not have yet.

A kernel's file states the families of instructions that it needs:

    // qdbg-needs: A C K

Where the machine lacks one of them, or where its warp is too small for a block, the launch is no test of
the machine; the interpreter runs it alone.  A file that states nothing is run as it is, and traps at an
instruction that the machine lacks.
"""

from __future__ import annotations

import re

from qdbg.compiler.lowering import SUPPORTED
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.ptx.families import FAMILIES
from qdbg.runtime.launch import Launch, LaunchError

_NEEDS = re.compile(r"^\s*//\s*qdbg-needs:(.*)$", re.MULTILINE)


def stated(text: str, path: str) -> frozenset[str]:
    """The families that a kernel's file states; none where it states nothing.

    Raises LaunchError for a letter that is none.
    """
    found = _NEEDS.search(text)
    letters = found.group(1).split() if found else []
    for letter in letters:
        if letter not in FAMILIES:
            line = text.count("\n", 0, found.start()) + 1 if found else 0
            raise LaunchError(f"{path}:{line}", f"there is no family {letter}; they are A to S")
    return frozenset(letters)


def missing(text: str, path: str, launch: Launch, config: MachineConfig) -> tuple[str, ...]:
    """What a launch of a file needs beyond the machine, e.g. ("E", "blocks of more than 32 threads").

    Raises LaunchError as `stated` does.
    """
    needs = stated(text, path)
    lacking = sorted(needs - SUPPORTED)
    if needs and launch.threads > config.lanes:
        lacking.append(f"blocks of more than {config.lanes} threads")
    return tuple(lacking)
