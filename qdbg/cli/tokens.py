"""`qdbg prompt` and `qdbg decode`: a launch as tokens, for a model that runs without qdbg, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from qdbg.cli.failure import Exit, Failure
from qdbg.cli.options import DEFAULT_MAX_PASSES, kernel_argument, launch_options
from qdbg.cli.progress import progress_line, tell_note
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared


@click.command()
@kernel_argument
@launch_options
@click.option(
    "--max-passes",
    type=click.IntRange(min=1),
    metavar="N",
    default=DEFAULT_MAX_PASSES,
    show_default=True,
    help="The prompt's max_new_tokens: where generation stops if the launch does not end.",
)
@click.option(
    "-o", "output", type=click.Path(path_type=Path), required=True, metavar="FILE.json", help="Where."
)
def prompt(kernel: Path, launch: LaunchOptions, max_passes: int, output: Path) -> None:
    """Write a launch as a prompt, for a model without qdbg.

    The file also names the checkpoint that it is for, which is built if need be.
    """
    from qdbg.compiler.machine.vocabulary import Kind, Token
    from qdbg.runtime.checkpoints import find_or_build
    from qdbg.runtime.launcher import prepare

    prepared = prepare(kernel, launch)
    image = prepared.image
    with progress_line("building the machine") as progress:
        checkpoint = find_or_build(image.config, progress=progress)
    tell_note(checkpoint)
    content = {
        "input_ids": image.ids,
        "eos_token_id": image.vocabulary[Token(Kind.END)],
        "max_new_tokens": max_passes,
        "checkpoint": str(checkpoint.path),
        "kernel": prepared.kernel,
        "launch": prepared.title,
    }
    try:
        output.write_text(json.dumps(content) + "\n")
    except OSError as error:
        raise Failure(
            f"{output}: the prompt cannot be written: {error.strerror}; name another file"
        ) from None


@click.command()
@kernel_argument
@launch_options
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.json")
def decode(kernel: Path, launch: LaunchOptions, file: Path) -> int:
    """Print the results that generated tokens stand for.

    FILE.json holds them as "new_ids", see README.  The results come from the tokens alone: no engine
    runs, see `qdbg.runtime.replay`.  Tokens do not say which launch they were generated for; name the
    same one as for the prompt.
    """
    from qdbg.runtime.launcher import prepare

    new_ids = _read_generation(file)
    prepared = prepare(kernel, launch)
    click.echo(json.dumps(_decode(prepared, new_ids, file)))
    return Exit.OK


def _read_generation(file: Path) -> list[int]:
    try:
        content = json.loads(file.read_text())
    except (ValueError, RecursionError) as error:
        raise Failure(f"{file}: not JSON ({error}); give the output of stock_generate.py") from None
    ids = content.get("new_ids") if isinstance(content, dict) else None
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise Failure(
            f'{file}: there is no list of token ids "new_ids"; give the output of stock_generate.py'
        )
    if min(ids, default=0) < 0:
        raise Failure(f"{file}: {min(ids)} is no token id, they count from 0")
    return ids


def _decode(prepared: Prepared, new_ids: list[int], file: Path) -> dict[str, Any]:
    from qdbg.cli.verdict import trap_sentence
    from qdbg.runtime.outcome import outputs
    from qdbg.runtime.replay import Replay
    from qdbg.runtime.trace import TraceError

    image = prepared.image
    replay = Replay(image.program, image.vocabulary, image.uniforms, image.memory, image.threads)
    try:
        replay.feed_all(new_ids)
    except TraceError as error:
        raise Failure(f"{file}: {error}; were the tokens generated for this launch?", Exit.MISMATCH) from None
    except IndexError:
        raise Failure(f"{file}: a token id is outside of the machine's vocabulary") from None
    if replay.trace.trap is not None:
        raise Failure(trap_sentence(prepared, replay.trace), Exit.UNSUPPORTED)
    if not replay.trace.ended:
        raise Failure(
            f"{file}: the {len(new_ids)} tokens do not reach the end of the launch", Exit.UNSUPPORTED
        )
    return outputs(prepared.bound, replay.memory)
