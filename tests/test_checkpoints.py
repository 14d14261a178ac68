"""The checkpoint cache: damage of every kind is found and mended, and nothing of the user's is touched."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machines import SMALL

from qdbg.compiler.machine import build
from qdbg.compiler.machine.config import MachineConfig
from qdbg.runtime import checkpoints
from qdbg.runtime.checkpoints import BUILDING, MANIFEST, Checkpoint, CheckpointError, find_or_build, write

#: What transformers and qdbg read; the folder must hold it, and nothing but the manifest beside it.
FILES = {
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
    "tokenizer_config.json", "wires.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A sound cached checkpoint of the SMALL machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QDBG_CACHE", str(tmp_path_factory.mktemp("pristine")))
        return find_or_build(SMALL)


@pytest.fixture
def cached(pristine: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in a cache of the test's own."""
    monkeypatch.setenv("QDBG_CACHE", str(tmp_path))
    return Path(shutil.copytree(pristine.path, tmp_path / pristine.path.name))


def test_a_checkpoint_is_named_so_that_it_is_found_from_anywhere(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cached.parent.parent)
    monkeypatch.setenv("QDBG_CACHE", cached.parent.name)
    assert find_or_build(SMALL).path == cached


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Damage that changes what the manifest says."""

    def damage(path: Path) -> None:
        manifest = json.loads((path / MANIFEST).read_text())
        change(manifest)
        (path / MANIFEST).write_text(json.dumps(manifest))

    return damage


def overwrite(name: str, text: str) -> Callable[[Path], None]:
    """Damage that replaces a file's content."""

    def damage(path: Path) -> None:
        (path / name).write_text(text)

    return damage


def unlist_and_break_config(path: Path) -> None:
    edit(lambda manifest: manifest["files"].pop("config.json"))(path)
    (path / "config.json").write_text("{")


def edit_config_behind_its_back(path: Path) -> None:
    """Same size, same time of modification."""
    config = path / "config.json"
    status, text = config.stat(), config.read_text()
    config.write_text(text.replace('"hidden_size": ', '"hidden_sizE": '))
    os.utime(config, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert config.stat().st_size == status.st_size


def folder_instead_of(name: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        (path / name).unlink()
        (path / name).mkdir()

    return damage


def file_instead(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def dangling_symlink(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to("/nonexistent")


DAMAGES = {
    "manifest without files": overwrite(MANIFEST, '{"files": {}}'),
    "manifest is empty": overwrite(MANIFEST, ""),
    "manifest is a list": overwrite(MANIFEST, "[]"),
    "manifest is deeply nested": overwrite(MANIFEST, "[" * 100_000),
    "manifest without nonzeros": edit(lambda manifest: manifest.pop("nonzeros")),
    "manifest with other nonzeros": edit(lambda manifest: manifest.update(nonzeros=1)),
    "config not listed and broken": unlist_and_break_config,
    "config edited behind its back": edit_config_behind_its_back,
    "config missing": lambda path: (path / "config.json").unlink(),
    "weights cut": lambda path: os.truncate(path / "model.safetensors", 1000),
    "weights are a folder": folder_instead_of("model.safetensors"),
    "manifest is a folder": folder_instead_of(MANIFEST),
    "a file in its place": file_instead,
    "a dangling symlink in its place": dangling_symlink,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_mended_and_said(
    pristine: Checkpoint, cached: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Building is replaced by copying, which is faster; the other tests here build."""

    def copy(_config: MachineConfig, directory: Path, *_more: object) -> int:
        for name in FILES:
            shutil.copy(pristine.path / name, directory)
        return pristine.nonzeros

    monkeypatch.setattr(build, "build_checkpoint", copy)
    damage(cached)
    mended = find_or_build(SMALL)
    assert mended.note is not None
    assert "was damaged" in mended.note
    assert mended.sha256 == pristine.sha256
    assert {file.name for file in cached.iterdir()} == FILES | {MANIFEST}
    assert [entry.name for entry in cached.parent.iterdir()] == [cached.name]
    again = find_or_build(SMALL)
    assert (again.note, again.built) == (None, None)


def test_manifest_lists_every_file_and_all_have_the_same_mode(pristine: Checkpoint) -> None:
    assert json.loads((pristine.path / MANIFEST).read_text())["files"].keys() == FILES
    assert len({file.stat().st_mode for file in pristine.path.iterdir()}) == 1


def test_a_sound_checkpoint_is_used_where_nothing_can_be_written(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the refusal is simulated where it would happen."""

    def refuse(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "rename", "replace", "mkdir", "chmod"):
        monkeypatch.setattr(os, name, refuse)
    assert find_or_build(SMALL).built is None


def test_leftovers_of_killed_builds_go_and_young_ones_stay(cached: Path) -> None:
    old, young = cached.parent / f"{BUILDING}old", cached.parent / f"{BUILDING}young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "model.safetensors.part").write_text("x")
    hours_ago = time.time() - 2 * 3600
    os.utime(old, (hours_ago, hours_ago))
    assert find_or_build(SMALL).built is None
    assert not old.exists()
    assert young.exists()


#: Builds the SMALL machine where files may have 64 KiB at most: what a full disk does to a build.
FULL_DISK = """
import resource
from pathlib import Path
from machines import SMALL
from qdbg.runtime.checkpoints import CheckpointError, find_or_build, write
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
for attempt in (lambda: find_or_build(SMALL), lambda: write(SMALL, Path("out"))):
    try:
        attempt()
    except CheckpointError as error:
        print(error)
"""


def in_python(code: str, cache: Path) -> list[str]:
    """The command that runs some code with that cache, for a process of its own."""
    setup = f"import os, sys; os.environ['QDBG_CACHE'] = {str(cache)!r}; "
    return [sys.executable, "-c", setup + f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n{code}"]


def test_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        in_python(FULL_DISK, tmp_path), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    first, second = run.stdout.splitlines()
    assert str(tmp_path) in first
    assert "QDBG_CACHE" in first
    assert "out" in second
    assert "-o" in second
    for sentence in (first, second):
        assert "File too large" in sentence
        assert "free some space" in sentence
    assert [str(entry.relative_to(tmp_path)) for entry in tmp_path.rglob("*")] == ["out"]


#: Stops in the middle of a build and says so.
SLOW_BUILD = """
import time
from machines import SMALL
from qdbg.runtime.checkpoints import find_or_build
def wait(done, total):
    print("building", flush=True)
    time.sleep(60)
find_or_build(SMALL, progress=wait)
"""


def test_a_terminated_build_cleans_up(tmp_path: Path) -> None:
    with subprocess.Popen(in_python(SLOW_BUILD, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        assert [entry.name.startswith(BUILDING) for entry in tmp_path.iterdir()] == [True]
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_write_refuses_a_folder_of_someone_elses(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no checkpoint of qdbg's"):
        write(SMALL, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


def test_write_fills_an_empty_folder_and_replaces_its_own(pristine: Checkpoint, tmp_path: Path) -> None:
    first = write(SMALL, tmp_path)
    assert first.sha256 == pristine.sha256
    second = write(SMALL, tmp_path, "float32")
    assert second.nonzeros == first.nonzeros
    assert checkpoints._damage(tmp_path) is None
