"""Options that several commands share: the kernel, its launch, the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from qdbg.cli.failure import Failure
from qdbg.runtime.launch_options import LaunchOptions, StockOptions

#: What the debugger and `run` use when nobody says otherwise.
DEFAULT_ENGINE = "sparse"
MODELS = ("sparse", "stock")
ENGINES = (*MODELS, "interpreter")
#: The architecture without a model, for tests: it agrees with the compiler, so it proves nothing.
HIDDEN_ENGINES = ("emulator",)
#: Enough for any kernel that a person waits for; an infinite loop still ends.
DEFAULT_MAX_PASSES = 1_000_000
#: Megabytes for the debugger's snapshots: a hundred thousand passes of a small kernel without a gap.
DEFAULT_HISTORY = 256

Command = Callable[..., Any]


def kernel_argument(command: Command) -> Command:
    """KERNEL, a path."""
    return click.argument("kernel", type=click.Path(path_type=Path))(command)


def launch_options(command: Command) -> Command:
    """The LAUNCH options, handed to the command as one `launch: LaunchOptions`."""

    def wrapped(
        *args: Any,
        entry: str | None,
        number: int | None,
        grid: str | None,
        block: str | None,
        shared: int | None,
        arguments: tuple[str, ...],
        opt: str,
        **kwargs: Any,
    ) -> Any:
        pairs = tuple(_pair(text) for text in arguments)
        options = LaunchOptions(entry, number, grid, block, shared, pairs, int(opt))
        return command(*args, launch=options, **kwargs)

    options = [
        click.option("--kernel", "entry", metavar="NAME", help="Which kernel of the file."),
        click.option("--launch", "number", type=int, metavar="N", help="Which launch of the file, from 1."),
        click.option("--grid", metavar="X[,Y[,Z]]", help="Blocks."),
        click.option("--block", metavar="X[,Y[,Z]]", help="Threads of a block."),
        click.option("--shared", type=int, metavar="BYTES", help="Dynamic shared memory."),
        click.option(
            "--arg",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="An argument as in a launch comment, e.g. n=3 or a='i32[1, 2]'.",
        ),
        click.option(
            "--opt", type=click.Choice(["3", "1", "0"]), default="3", help="CUDA optimisation level."
        ),
    ]
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    result: Command = wrapped
    for option in reversed(options):
        result = option(result)
    return result


def engine_option(command: Command, names: tuple[str, ...] = ENGINES) -> Command:
    """--engine; names: those that its help shows."""
    what = ("our executor that skips the weights' zeros", "transformers as installed",
            "the PTX interpreter without a model")[: len(names)]  # fmt: skip
    option = click.option(
        "--engine",
        default=DEFAULT_ENGINE,
        show_default=True,
        metavar="|".join(names),
        callback=_engine,
        help=f"What runs the launch: {', '.join(what[:-1])} or {what[-1]}.",
    )
    return option(command)


def model_option(command: Command) -> Command:
    """--engine of a command that needs a model."""
    return engine_option(command, MODELS)


def stock_options(command: Command) -> Command:
    """--device and --dtype, handed to a command that also takes --engine as `stock: StockOptions`."""

    @functools.wraps(command)
    def wrapped(*args: Any, engine: str, device: str | None, dtype: str | None, **kwargs: Any) -> Any:
        given = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        if given and engine != "stock":
            raise Failure(f"--{next(iter(given))} is for --engine stock; {engine} has no choice of it")
        return command(*args, engine=engine, stock=StockOptions(**given), **kwargs)

    device = click.option(
        "--device",
        type=click.Choice(["cpu", "cuda", "mps"]),
        help="Where --engine stock computes; cpu if not given.",
    )
    dtype = click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16"]),
        help="What --engine stock computes in; float32 if not given.",
    )
    return device(dtype(wrapped))


def json_option(command: Command) -> Command:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def max_passes_option(command: Command) -> Command:
    """--max-passes."""
    option = click.option(
        "--max-passes",
        type=click.IntRange(min=1),
        metavar="N",
        default=DEFAULT_MAX_PASSES,
        show_default=True,
        help="Give up after this many forward passes (interpreter: PTX instructions).",
    )
    return option(command)


def races_option(command: Command) -> Command:
    """--races."""
    option = click.option(
        "--races",
        is_flag=True,
        help="With --engine interpreter: warn of accesses of two threads that nothing orders.",
    )
    return option(command)


def history_option(command: Command) -> Command:
    """--history-mb."""
    option = click.option(
        "--history-mb",
        type=click.IntRange(min=0),
        metavar="N",
        default=DEFAULT_HISTORY,
        show_default=True,
        help="Memory for going back; 0 goes back from the start every time.",
    )
    return option(command)


def _engine(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if name not in ENGINES + HIDDEN_ENGINES:
        raise Failure(f"there is no engine {name}; the engines are {', '.join(ENGINES)}")
    return name


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise Failure(f"--arg {text} is not NAME=VALUE; write for example --arg n=3")
    return name.strip(), value.strip()
