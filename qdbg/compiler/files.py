"""Files that a person names."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """The content of a file that has an end.  Raises OSError, also for a device and a pipe."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe; give a .cu or .ptx file", str(path))
    return path.read_bytes()
