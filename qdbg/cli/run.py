"""`qdbg run`: one launch, headless."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from qdbg.cli.failure import Exit, Failure
from qdbg.cli.options import (
    engine_option,
    json_option,
    kernel_argument,
    launch_options,
    max_passes_option,
    races_option,
    stock_options,
)
from qdbg.cli.progress import COMPILING, progress_line, tell_note
from qdbg.compiler.machine.config import MEMORY_BASE, NANO, WARP
from qdbg.runtime.launch_options import LaunchOptions, StockOptions
from qdbg.runtime.launcher import Prepared, open_engine, open_session, prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdbg.cli.verdict import Verdict
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.interpreter import Fault
    from qdbg.runtime.outcome import Outcome
    from qdbg.runtime.session import Session
    from qdbg.runtime.view import Block, TrapReport

#: What the interpreter has nothing to say about.
_NO_MODEL = ("checkpoint_sha256", "layers", "hidden", "threads", "prompt_tokens", "tokens", "passes", "exact")


@click.command()
@kernel_argument
@launch_options
@click.option("--all", "every", is_flag=True, help="Every launch of the file; on stock they are one batch.")
@engine_option
@stock_options
@max_passes_option
@races_option
@json_option
def run(
    kernel: Path,
    launch: LaunchOptions,
    every: bool,
    engine: str,
    stock: StockOptions,
    max_passes: int,
    races: bool,
    as_json: bool,
) -> int:
    """Run one launch to its end, headless.

    Prints the arrays that it wrote; compares with the interpreter and with what the file expects.
    """
    if every and races:
        raise Failure("--races works on one launch; give --launch N instead of --all")
    if every:
        from qdbg.cli.run_all import run_all

        return run_all(kernel, launch, engine, stock, max_passes, as_json)
    report, (sentence, status) = run_launch(kernel, launch, engine, stock, max_passes, races)
    if as_json:
        click.echo(json.dumps(report | ({"error": sentence} if sentence else {})))
    else:
        click.echo("\n".join(summary(report)))
    sys.stdout.flush()
    for warning in report["warnings"]:
        click.echo(f"qdbg: warning: {warning['message']}", err=True)
    if sentence:
        click.echo(f"qdbg: {sentence}", err=True)
    return status


def run_launch(
    kernel: Path,
    launch: LaunchOptions,
    engine: str,
    stock: StockOptions,
    max_passes: int,
    races: bool = False,
) -> tuple[dict[str, Any], Verdict]:
    """The object that `run --json` prints, and what to say about it."""
    if engine == "interpreter":
        return _interpret(prepare(kernel, launch, None), max_passes, races)
    if races:
        raise Failure(f"--races works on the PTX interpreter only, not on {engine}; add --engine interpreter")
    return _generate(prepare(kernel, launch, NANO), engine, stock, max_passes)


def _generate(
    prepared: Prepared, engine_name: str, stock: StockOptions, max_passes: int
) -> tuple[dict[str, Any], Verdict]:
    """Run the launch on the machine, in lock-step with the interpreter."""
    from qdbg.runtime import outcome
    from qdbg.runtime.control import Control

    config = prepared.image.config  # lowers: what the machine cannot run fails before a checkpoint is built
    with progress_line("building the machine") as building, progress_line(COMPILING) as compiling:
        engine, checkpoint = open_engine(engine_name, config, building, stock, compiling)
    tell_note(checkpoint)
    session = open_session(prepared, engine, "", max_passes)
    with progress_line("forward pass") as progress:
        try:
            session.start()
            control = Control(progress=lambda glimpse: progress(glimpse.passes, 0))
            result = outcome.run(session, control)
        except KeyboardInterrupt:
            made = len(session.tokens)
            raise Failure(f"interrupted after {made:,} forward passes", Exit.INTERRUPTED) from None
        except outcome.PassLimit as limit:
            raise Failure(f"{prepared.source.path}: {limit}", Exit.UNSUPPORTED) from None
    return generated(prepared, session, result, checkpoint)


def generated(
    prepared: Prepared, session: Session, result: Outcome, checkpoint: Checkpoint | None
) -> tuple[dict[str, Any], Verdict]:
    """The report on a launch that ran on the machine, while the engine still stands at its end."""
    from qdbg.cli.verdict import judge
    from qdbg.runtime import outcome

    model = {
        "checkpoint_sha256": checkpoint.sha256 if checkpoint else None,
        "layers": checkpoint.layers if checkpoint else None,
        "hidden": checkpoint.hidden if checkpoint else None,
    }
    report = {"kernel": prepared.kernel, **model, **outcome.report(session, result)}
    return report, judge(prepared, result, session.trace, session.engine.state().memory)


def _interpret(prepared: Prepared, limit: int, races: bool) -> tuple[dict[str, Any], Verdict]:
    """Run the launch on the interpreter alone; everything about a model is null."""
    from qdbg.cli.verdict import unexpected
    from qdbg.runtime.interpreter import Fault, Interpreter, LimitReached
    from qdbg.runtime.outcome import as_expected, outputs

    interpreter = Interpreter(prepared.source.ptx, prepared.bound, races=races)
    fault: Fault | None = None
    start = time.perf_counter()
    try:
        interpreter.run(limit)
    except Fault as error:
        fault = error
    except LimitReached:
        raise Failure(
            f"{prepared.source.path}: the launch did not end within {limit:,} PTX instructions: "
            "an endless loop? raise the limit with --max-passes if not",
            Exit.UNSUPPORTED,
        ) from None
    except KeyboardInterrupt:
        made = interpreter.instructions
        raise Failure(f"interrupted after {made:,} PTX instructions", Exit.INTERRUPTED) from None
    seconds = time.perf_counter() - start
    memory = _words(interpreter.memory)
    trap = _trap(fault, prepared.bound.block) if fault else None
    report = {
        "kernel": prepared.kernel,
        "engine": "interpreter",
        **dict.fromkeys(_NO_MODEL),
        "grid": list(prepared.bound.grid),
        "block": list(prepared.bound.block),
        "lanes": WARP,
        "ptx_instructions": interpreter.instructions,
        "seconds": round(seconds, 6),
        "mismatches": [],
        "expected": as_expected(prepared.bound, memory) if trap is None else None,
        "trap": asdict(trap) if trap is not None else None,
        "warnings": [asdict(finding) for finding in interpreter.findings],
        "printed": [asdict(one) for one in interpreter.printed],
        "outputs": outputs(prepared.bound, memory),
    }
    if fault is not None:
        return report, (str(fault), Exit.UNSUPPORTED)
    return report, unexpected(prepared, memory)


def _trap(fault: Fault, block: Block) -> TrapReport:
    from qdbg.runtime.view import TrapReport

    x, y, z = fault.thread
    warp = (x + block[0] * (y + block[1] * z)) // WARP
    return TrapReport(fault.block, fault.thread, warp, fault.lane, fault.line, fault.reason)


def _words(image: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """A memory image that starts at address 0 as words from MEMORY_BASE on."""
    content = image[MEMORY_BASE:]
    padded = np.zeros(-(-len(content) // 4) * 4, np.uint8)
    padded[: len(content)] = content
    return padded.view(np.uint32)


def summary(report: dict[str, Any]) -> list[str]:
    """A report for a person: what the kernel printed, the arrays, then a line of figures."""
    lines = [
        f"block {tuple(one['block'])}, thread {tuple(one['thread'])}: {line}"
        for one in report.get("printed", ())
        for line in one["text"].splitlines()
    ]
    lines += [f"{name} = {o['dtype']}{json.dumps(o['data'])}" for name, o in report["outputs"].items()]
    figures = [f"{report['ptx_instructions']:,} PTX instructions"]
    if report["tokens"] is not None:
        figures.append(f"{report['tokens']:,} tokens after a prompt of {report['prompt_tokens']:,}")
    figures.append(f"{report['seconds']:.2f} s")
    if report["exact"] is not None:
        reach = " up to the trap" if report["trap"] else ""
        figures.append(f"exact{reach}" if report["exact"] else "NOT exact")
    if report["expected"] is not None:
        figures.append("as expected" if report["expected"] else "NOT as expected")
    return [*lines, f"{report['kernel']} on {report['engine']}: {', '.join(figures)}"]
