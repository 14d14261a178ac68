"""`qdbg build`: write a checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qdbg.cli.failure import Failure
from qdbg.cli.options import json_option
from qdbg.cli.progress import progress_line, tell_note

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.engine import Progress

#: The cache keeps the smaller one, which holds every weight exactly.
CACHED = "bfloat16"
DTYPES = (CACHED, "float32")


@click.command()
@click.option("--target", default="nano", show_default=True, metavar="nano", help="Which machine.")
@click.option(
    "-o", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Where, if not the cache."
)
@click.option("--dtype", type=click.Choice(DTYPES), default=CACHED, show_default=True, help="Of the weights.")
@json_option
def build(target: str, directory: Path | None, dtype: str, as_json: bool) -> None:
    """Compile the GPU to weights, and print their folder.

    The result is a checkpoint that transformers loads as it is.
    """
    if target != "nano":
        raise Failure(f"there is no target {target}; this version builds nano")
    if directory is None and dtype != CACHED:
        raise Failure(f"the cache keeps {CACHED}, in which every weight is exact; give -o DIR for {dtype}")
    with progress_line("building the machine") as progress:
        made = _cached(target, progress) if directory is None else _written(directory, dtype, progress)
    facts = asdict(made)
    report = {"checkpoint": str(facts.pop("path")), **facts}
    click.echo(json.dumps(report) if as_json else report["checkpoint"])


def _cached(target: str, progress: Progress) -> Checkpoint:
    """The checkpoint of the cache, built if it is not there."""
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime.checkpoints import find_or_build

    checkpoint = find_or_build(NANO, target, progress)
    tell_note(checkpoint)
    return checkpoint


def _written(directory: Path, dtype: str, progress: Progress) -> Checkpoint:
    """A checkpoint in a folder of the user's."""
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime.checkpoints import write

    return write(NANO, directory, dtype, progress)
