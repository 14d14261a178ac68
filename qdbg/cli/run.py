"""`qdbg run`: one launch, headless."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from qdbg.cli.failure import Exit, Failure
from qdbg.cli.options import engine_option, json_option, kernel_argument, launch_options, max_passes_option
from qdbg.cli.progress import progress_line
from qdbg.runtime.launcher import LaunchOptions
from qdbg.runtime.outcome import Outcome


@click.command()
@kernel_argument
@launch_options
@engine_option
@max_passes_option
@json_option
def run(kernel: Path, launch: LaunchOptions, engine: str, max_passes: int, as_json: bool) -> int:
    """Run one launch to its end and say what came out, compared with the interpreter."""
    outcome = run_launch(kernel, launch, engine, max_passes)
    sentence, status = verdict(outcome)
    if as_json:
        click.echo(json.dumps(outcome.to_json() | ({"error": sentence} if sentence else {})))
    else:
        click.echo("\n".join(summary(outcome)))
    sys.stdout.flush()
    if sentence:
        click.echo(f"qdbg: {sentence}", err=True)
    return status


def run_launch(kernel: Path, launch: LaunchOptions, engine_name: str, max_passes: int) -> Outcome:
    """The outcome of a launch on an engine.  Raises what `describe` puts into a sentence."""
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime.launcher import open_engine, prepare
    from qdbg.runtime.outcome import run_on_engine, run_on_interpreter

    if engine_name == "interpreter":
        return run_on_interpreter(prepare(kernel, launch, None), max_passes)
    prepared = prepare(kernel, launch, NANO)
    prepared.image  # noqa: B018  what cannot be lowered must fail before a checkpoint is built
    with progress_line("building the machine") as progress:
        engine, checkpoint = open_engine(engine_name, NANO, progress)
    made = 0
    with progress_line("forward pass") as progress:

        def show(passes: int) -> None:
            nonlocal made
            made = passes
            progress(passes, 0)

        try:
            return run_on_engine(prepared, engine, checkpoint, max_passes, show)
        except KeyboardInterrupt:
            raise Failure(f"interrupted after {made:,} forward passes", Exit.INTERRUPTED) from None


def verdict(outcome: Outcome) -> tuple[str | None, Exit]:
    """What is wrong, if anything, and the exit status."""
    if outcome.mismatches:
        return outcome.mismatches[0], Exit.MISMATCH
    sentence = outcome.trap or outcome.stopped
    return sentence, Exit.UNSUPPORTED if sentence else Exit.OK


def summary(outcome: Outcome) -> list[str]:
    """The outcome for a person: the arrays, then a line of figures."""
    lines = [f"{name} = {o['dtype']}{json.dumps(o['data'])}" for name, o in outcome.outputs.items()]
    figures = [f"{outcome.ptx_instructions:,} PTX instructions"]
    if outcome.tokens is not None:
        figures += [f"{outcome.tokens:,} tokens", f"prompt {outcome.prompt_tokens:,}"]
    figures.append(f"{outcome.seconds:.2f} s")
    if outcome.exact is not None:
        figures.append("exact" if outcome.exact else "NOT exact")
    if outcome.expected is not None:
        figures.append("as expected" if outcome.expected else "NOT as expected")
    return [*lines, f"{outcome.kernel} on {outcome.engine}: {', '.join(figures)}"]
