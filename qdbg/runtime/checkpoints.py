"""The cache of checkpoints: built when first asked for, checked whenever used.

A checkpoint's folder is named after everything its bytes depend on: the machine's parameters and
the compiler's own source.  `manifest.json` records what each file should be, and a digest of itself;
whatever is damaged has the checkpoint built again, and the result says so.  Using a checkpoint writes
nothing that matters, so a cache may be read-only.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from qdbg.compiler.hardware.checkpoint import WEIGHTS
from qdbg.compiler.machine.config import MachineConfig
from qdbg.runtime.engine import Progress

MANIFEST = "manifest.json"
#: Checkpoints of one machine that the cache keeps, the least recently used going first.
KEPT = 3
#: Folders of builds under way; one that is older than an hour belongs to a build that was killed.
BUILDING = ".building-"
_ABANDONED = 3600.0
#: Written by nobody else, so a folder that holds it holds a checkpoint of ours.
_OURS = "wires.json"
_PART = WEIGHTS + ".part"
#: Sources that a checkpoint's bytes depend on.
_SOURCES = ("compiler/hardware", "compiler/machine")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    """Where checkpoints are kept: QDBG_CACHE, or the user's cache folder.

    The path is absolute: a prompt names its checkpoint, and may be read from elsewhere.
    """
    if chosen := os.environ.get("QDBG_CACHE"):
        return Path(chosen).absolute()
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
        _sweep(path.parent)
        if os.path.lexists(path):
            damage = _damage(path)
            if damage is None:
                with suppress(OSError):  # a read-only cache forgets nothing, so it need not know
                    os.utime(path / MANIFEST)
                return _read(path)
            note = f"the cached checkpoint was damaged ({damage}) and was built again"
        start = time.perf_counter()
        _build(config, path, progress)
        _prune(path)
        return replace(_read(path), built=time.perf_counter() - start, note=note)
    except OSError as error:
        raise _failed(f"cannot keep a checkpoint in {path.parent}", error, "set QDBG_CACHE to") from error


def write(
    config: MachineConfig, directory: Path, dtype: str = "bfloat16", progress: Progress | None = None
) -> Checkpoint:
    """Write a machine's checkpoint to a folder that is new, empty or holds one already.

    Raises CheckpointError where the folder holds anything else or cannot be written.
    """
    start = time.perf_counter()
    try:
        if directory.is_dir():
            names = {entry.name for entry in directory.iterdir()}
            if names - {_PART} and _OURS not in names:
                raise CheckpointError(
                    f"{directory}: the folder holds files that are no checkpoint of qdbg's; "
                    "give -o a new or an empty folder"
                )
        directory.mkdir(parents=True, exist_ok=True)
        _write(config, directory, dtype, progress)
        return replace(_read(directory), built=time.perf_counter() - start)
    except OSError as error:
        raise _failed(f"cannot write a checkpoint to {directory}", error, "give -o") from error


@cache
def fingerprint(config: MachineConfig) -> str:
    """SHA-256 of the machine's parameters and of the compiler's source."""
    digest = hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode())
    package = Path(__file__).parents[1]
    for folder in _SOURCES:
        for source in sorted((package / folder).glob("*.py")):
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _failed(what: str, error: OSError, choose: str) -> CheckpointError:
    """The sentence for an error of the file system; choose: how to name another folder."""
    if error.errno in _FULL:
        cure = (
            f"a checkpoint takes 420 MB (float32: 800 MB), so free some space or {choose} a folder with room"
        )
    else:
        cure = f"{choose} a folder that can be written"
    return CheckpointError(f"{what}: {error.strerror or error}; {cure}")


def _build(config: MachineConfig, path: Path, progress: Progress | None) -> None:
    """Build beside the final place and move there, so that no reader sees half a checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _folder(path.parent) as work:
        _write(config, work, "bfloat16", progress)
        os.chmod(work, 0o755)
        if os.path.lexists(path) and _damage(path) is not None:
            # Out of the way at once, whatever it is: another process may be doing the same.
            with _folder(path.parent) as bin, suppress(FileNotFoundError):
                os.rename(path, bin / path.name)
        try:
            os.replace(work, path)
        except OSError:
            if _damage(path) is not None:  # otherwise another process was faster, with the same bytes
                raise


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    """A folder that is gone afterwards, on SIGTERM as well."""

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    default = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    watched = default and threading.current_thread() is threading.main_thread()
    if watched:
        signal.signal(signal.SIGTERM, end)
    folder = Path(tempfile.mkdtemp(prefix=BUILDING, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if watched:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _write(config: MachineConfig, directory: Path, dtype: str, progress: Progress | None) -> None:
    """The files of a checkpoint, then the manifest that lists every one of them.  Raises OSError."""
    from safetensors import SafetensorError

    from qdbg.compiler.machine.build import build_checkpoint

    (directory / MANIFEST).unlink(missing_ok=True)  # while the files change it would be wrong
    try:
        nonzeros = build_checkpoint(config, directory, dtype, progress)
    except SafetensorError as error:  # says "I/O error: No space left on device (os error 28)"
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(directory / WEIGHTS)) from error
    finally:
        (directory / _PART).unlink(missing_ok=True)
    # safetensors makes a file that only its owner can read; the others follow the umask.
    os.chmod(directory / WEIGHTS, (directory / _OURS).stat().st_mode)
    files = {f.name: _describe(f) for f in sorted(directory.iterdir()) if f.is_file()}
    content: dict[str, Any] = {"nonzeros": nonzeros, "files": files}
    manifest = content | {"digest": _digest(content)}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _sweep(parent: Path) -> None:
    """Remove what killed builds left: at every use of the cache, for there may never be another build."""
    for left in parent.glob(BUILDING + "*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)


def _prune(path: Path) -> None:
    """Forget the least recently used checkpoints of the same machine, from older sources."""
    keep_newest(path.parent, path.name.rpartition("-")[0] + "-*/" + MANIFEST)


def keep_newest(cache: Path, marks: str) -> None:
    """Remove folders of the cache but for a few; `marks`: files in them, whose times say which are newest."""
    for mark in sorted(cache.glob(marks), key=lambda m: m.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(mark.parent, ignore_errors=True)


def _describe(file: Path) -> dict[str, Any]:
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    status = file.stat()
    return {"sha256": digest, "size": status.st_size, "modified": status.st_mtime_ns}


def _digest(manifest: dict[str, Any]) -> str:
    """SHA-256 of all that a manifest says, so that one that lacks a file or a figure is found out."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damage(path: Path) -> str | None:
    """What is wrong with a cached checkpoint, or None.

    The weights are not read again unless they were touched; the other files are small.
    """
    if not path.is_dir():
        return "it was no folder"
    name = MANIFEST
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["digest"] != _digest(manifest):
            return f"{MANIFEST} has changed"
        for name, expected in manifest["files"].items():
            file = path / name
            status = file.stat()
            if status.st_size != expected["size"]:
                return f"{name} has {status.st_size} bytes, not {expected['size']}"
            untouched = name == WEIGHTS and status.st_mtime_ns == expected["modified"]
            if not untouched and _describe(file)["sha256"] != expected["sha256"]:
                return f"{name} has changed"
            if not os.access(file, os.R_OK):
                return f"{name} cannot be read"
    except FileNotFoundError:
        return f"{name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"{name} cannot be read"
    return None


def _read(path: Path) -> Checkpoint:
    """A checkpoint in which nothing is damaged."""
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
    )
