"""The cache of checkpoints: built when first asked for, checked whenever used.

A checkpoint's folder is named after everything its bytes depend on: the machine's parameters and
the compiler's own source.  `manifest.json` records what each file should be; a file that is damaged
has the checkpoint built again, and the result says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from qdbg.compiler.hardware.checkpoint import WEIGHTS
from qdbg.compiler.machine.config import MachineConfig
from qdbg.runtime.engine import Progress

MANIFEST = "manifest.json"
#: Checkpoints of one machine that the cache keeps, the least recently used going first.
KEPT = 3
#: Sources that a checkpoint's bytes depend on.
_SOURCES = ("compiler/hardware", "compiler/machine")


class CheckpointError(Exception):
    """A checkpoint cannot be built or read; `str()` is one sentence with the cure."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    sha256: of the weights; size: bytes of the weights; nonzeros: weights other than 0; built: seconds
    that building took if it was just built, else None; note: a sentence if it had to be rebuilt.
    """

    path: Path
    sha256: str
    size: int
    nonzeros: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    vocabulary: int
    built: float | None = None
    note: str | None = None

    @property
    def geometry(self) -> str:
        """The checkpoint in a few words."""
        return f"nano {self.layers} layers of {self.hidden}"


def cache_directory() -> Path:
    """Where checkpoints are kept: QDBG_CACHE, or the user's cache folder."""
    if chosen := os.environ.get("QDBG_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("qdbg", appauthor=False))


def find_or_build(
    config: MachineConfig, target: str = "nano", progress: Progress | None = None
) -> Checkpoint:
    """The checkpoint of a machine, built if it is not in the cache or damaged there.

    `progress` is called with (layers written, layers) while building.  Raises CheckpointError where
    the cache cannot be written.
    """
    path = cache_directory() / f"{target}-{config.lanes}x{config.registers}-{fingerprint(config)[:12]}"
    note = None
    try:
        if path.exists():
            damage = _damage(path)
            if damage is None:
                os.utime(path / MANIFEST)
                return _read(path)
            note = f"the cached checkpoint was damaged ({damage}) and was built again"
            shutil.rmtree(path)
        start = time.perf_counter()
        _build(config, path, progress)
        _prune(path)
        return _read(path, time.perf_counter() - start, note)
    except OSError as error:
        reason = error.strerror or str(error)
        cure = "set QDBG_CACHE to a folder that can be written"
        raise CheckpointError(f"cannot keep a checkpoint in {path.parent}: {reason}; {cure}") from error


@cache
def fingerprint(config: MachineConfig) -> str:
    """SHA-256 of the machine's parameters and of the compiler's source."""
    digest = hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode())
    package = Path(__file__).parents[1]
    for folder in _SOURCES:
        for source in sorted((package / folder).glob("*.py")):
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _build(config: MachineConfig, path: Path, progress: Progress | None) -> None:
    """Build beside the final place and move there, so that no reader sees half a checkpoint."""
    from qdbg.compiler.machine.build import build_checkpoint

    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=path.parent))
    try:
        nonzeros = build_checkpoint(config, work, progress=progress)
        manifest = {"nonzeros": nonzeros, "files": {f.name: _describe(f) for f in sorted(work.iterdir())}}
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        os.chmod(work, 0o755)
        try:
            os.replace(work, path)
        except OSError:
            if not path.exists():  # otherwise another process was faster, with the same bytes
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _prune(path: Path) -> None:
    """Forget the least recently used checkpoints of the same machine, from older sources."""
    others = path.parent.glob(path.name.rpartition("-")[0] + "-*/" + MANIFEST)
    for manifest in sorted(others, key=lambda m: m.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(manifest.parent, ignore_errors=True)


def _describe(file: Path) -> dict[str, Any]:
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    status = file.stat()
    return {"sha256": digest, "size": status.st_size, "modified": status.st_mtime_ns}


def _damage(path: Path) -> str | None:
    """What is wrong with a cached checkpoint, or None.  Files not touched since are not read again."""
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, expected in files.items():
            status = (path / name).stat()
            if status.st_size != expected["size"]:
                return f"{name} has {status.st_size} bytes, not {expected['size']}"
            if (
                status.st_mtime_ns != expected["modified"]
                and _describe(path / name)["sha256"] != expected["sha256"]
            ):
                return f"{name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} cannot be read"
    return None


def _read(path: Path, built: float | None = None, note: str | None = None) -> Checkpoint:
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    weights = manifest["files"][WEIGHTS]
    return Checkpoint(
        path=path,
        sha256=weights["sha256"],
        size=weights["size"],
        nonzeros=manifest["nonzeros"],
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        heads=config["linear_num_value_heads"],
        vocabulary=config["vocab_size"],
        built=built,
        note=note,
    )
