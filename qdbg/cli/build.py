"""`qdbg build`: write a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import click

from qdbg.cli.failure import Failure
from qdbg.cli.options import json_option
from qdbg.cli.progress import progress_line

DTYPES = ("float32", "bfloat16")


@click.command()
@click.option("--target", default="nano", show_default=True, metavar="nano", help="Which machine.")
@click.option(
    "-o", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Where, if not the cache."
)
@click.option("--dtype", type=click.Choice(DTYPES), default="bfloat16", show_default=True)
@json_option
def build(target: str, directory: Path | None, dtype: str, as_json: bool) -> None:
    """Compile the GPU to weights: a checkpoint that transformers loads as it is."""
    if target != "nano":
        raise Failure(f"there is no target {target}; this version builds nano")
    from qdbg.compiler.machine.config import NANO

    with progress_line("building the machine") as progress:
        if directory is None:
            from qdbg.runtime.checkpoints import find_or_build

            directory = find_or_build(NANO, target, progress=progress).path
        else:
            from qdbg.compiler.machine.build import build_checkpoint

            build_checkpoint(NANO, directory, dtype, progress)
    click.echo(json.dumps({"checkpoint": str(directory)}) if as_json else str(directory))
