"""How this package's functions are compiled, and where the compiled code is kept.

numba keeps what it compiled beside the source and looks only at the file that a function stands in:
after a change to a function that it calls, stale code would run.  So the code is kept in the cache,
in a folder named after all of this package's source.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from qdbg.runtime.checkpoints import cache_directory


def _folder() -> Path:
    """A folder that can be written; a temporary one where the cache cannot."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    folder = cache_directory() / f"compiled-{digest.hexdigest()[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="qdbg-compiled-"))


setattr(numba.config, "CACHE_DIR", str(_folder()))  # noqa: B010  numba makes its settings at run time


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep the code."""
    return numba.njit(cache=True)(function)
