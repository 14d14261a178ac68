"""The packed form of a checkpoint, kept beside it: packing takes seconds, loading a tenth of one."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.runtime.sparse import pack as packing
from qdbg.runtime.sparse.pack import Columns, Lists, Packed, pack

NAME = "sparse.npz"
#: What reading a file raises that is missing, cut short, empty or something else altogether.
_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile)


def load_packed(checkpoint: Path) -> Packed:
    """The packed checkpoint, from `sparse.npz` beside it if that belongs to these weights, else packed
    anew (and kept, where the folder can be written).  Raises CheckpointFormatError."""
    key = _key(checkpoint)
    kept = checkpoint / NAME
    # Opened here, since numpy leaves it open where the file is damaged.
    with suppress(*_DAMAGED), kept.open("rb") as file, np.load(file) as stored:
        if stored["key"].item() == key:
            return _unflatten({name: stored[name] for name in stored.files})
    packed = pack(checkpoint)
    temporary = kept.with_suffix(f".{os.getpid()}.npz")
    with suppress(OSError):
        try:
            np.savez(temporary, allow_pickle=False, key=np.array(key), **_flatten(packed))
            os.replace(temporary, kept)
        finally:
            temporary.unlink(missing_ok=True)
    return packed


def _key(checkpoint: Path) -> str:
    """Names the weights (by size and time) and the packing code."""
    digest = hashlib.sha256(Path(packing.__file__).read_bytes())
    for file in sorted([*checkpoint.glob("*.safetensors"), checkpoint / "config.json"]):
        status = file.stat()
        digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


def _flatten(packed: Packed) -> dict[str, NDArray[Any]]:
    flat: dict[str, NDArray[Any]] = {
        "config": np.array(json.dumps(packed.config)), "kinds": packed.kinds, "units": packed.units
    }  # fmt: skip
    flat |= {f"arrays/{name}": array for name, array in packed.arrays.items()}
    for group in ("columns", "lists"):
        for name, table in getattr(packed, group).items():
            flat |= {f"{group}/{name}/{part}": array for part, array in table._asdict().items()}
    return flat


def _unflatten(flat: dict[str, NDArray[Any]]) -> Packed:
    packed = Packed(json.loads(flat["config"].item()), flat["kinds"], flat["units"])
    tables: dict[tuple[str, str], dict[str, NDArray[Any]]] = {}
    for path, array in flat.items():
        match path.split("/"):
            case ["arrays", name]:
                packed.arrays[name] = array
            case [group, name, part]:
                tables.setdefault((group, name), {})[part] = array
    for (group, name), parts in tables.items():
        if group == "columns":
            packed.columns[name] = Columns(**parts)
        else:
            packed.lists[name] = Lists(**parts)
    return packed
