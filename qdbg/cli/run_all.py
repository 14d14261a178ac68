"""`qdbg run --all`: every launch that a file offers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from qdbg.cli.failure import Exit, Failure, complain, describe, first_of, worst
from qdbg.cli.progress import COMPILING, progress_line, tell_note
from qdbg.cli.run import generated, run_launch
from qdbg.compiler.machine.config import NANO
from qdbg.compiler.source import read_kernel_file
from qdbg.runtime.launch import parse_launches
from qdbg.runtime.launch_options import LaunchOptions, StockOptions
from qdbg.runtime.launcher import Prepared, open_engine, prepare

#: The table where nobody can say how wide the page is.
WIDTH = 120


@dataclass(frozen=True)
class Result:
    """What came of a launch: the object of `run --json` (a part of it where it did not end), and why not."""

    report: dict[str, Any]
    sentence: str | None
    status: Exit


def run_all(
    kernel: Path, options: LaunchOptions, engine: str, stock: StockOptions, limit: int, as_json: bool
) -> int:
    """Run every launch of a file; what goes wrong with one costs no other."""
    start = time.perf_counter()
    launches = _launches(kernel, options)
    if engine == "interpreter":
        results = [_interpreted(kernel, launch, limit) for launch in launches]
    else:
        results = _generated(kernel, launches, engine, stock, limit)
    reports = [
        {"launch": number, **result.report, **({"error": result.sentence} if result.sentence else {})}
        for number, result in enumerate(results, 1)
    ]
    wrong = [f"launch {n}: {r.sentence}" for n, r in enumerate(results, 1) if r.sentence is not None]
    seconds = round(time.perf_counter() - start, 3)
    if as_json:
        report = {"engine": engine, "seconds": seconds, "launches": reports}
        click.echo(json.dumps(report | first_of(wrong)))
    else:
        _print_table(reports, results, engine, seconds)
    sys.stdout.flush()
    for number, result in enumerate(results, 1):
        for warning in result.report.get("warnings", ()):
            click.echo(f"qdbg: warning: launch {number}: {warning['message']}", err=True)
    complain(wrong)
    return worst(result.status for result in results)


def _launches(kernel: Path, options: LaunchOptions) -> list[LaunchOptions]:
    """The options for each launch of the file."""
    if options.number is not None:
        raise Failure("--all runs every launch of the file, --launch N one of them; give one of the two")
    count = len(parse_launches(read_kernel_file(kernel), str(kernel)))
    if count == 0:
        raise Failure(f"{kernel}: the file's comments offer no launch; write one, or run it without --all")
    return [replace(options, number=number) for number in range(1, count + 1)]


def _interpreted(kernel: Path, launch: LaunchOptions, limit: int) -> Result:
    try:
        report, (sentence, status) = run_launch(kernel, launch, "interpreter", StockOptions(), limit)
    except Exception as error:
        result = _failed(error)
        if result.status == Exit.INTERRUPTED:  # ctrl+c ends them all
            raise
        return result
    return Result(report, sentence, status)


def _generated(
    kernel: Path, launches: Sequence[LaunchOptions], engine_name: str, stock: StockOptions, limit: int
) -> list[Result]:
    """On the machine: as one batch where the engine has batches."""
    from qdbg.runtime.control import Control
    from qdbg.runtime.outcome import PassLimit
    from qdbg.runtime.together import run_together

    results: dict[int, Result] = {}
    prepared: dict[int, Prepared] = {}
    for number, launch in enumerate(launches):
        try:
            prepared[number] = prepare(kernel, launch, NANO)
            prepared[number].image  # noqa: B018  lowers: what the machine cannot run fails here
        except Exception as error:
            prepared.pop(number, None)
            results[number] = _failed(error)
    if not prepared:
        return [results[number] for number in range(len(launches))]
    with progress_line("building the machine") as building, progress_line(COMPILING) as compiling:
        engine, checkpoint = open_engine(engine_name, NANO, building, stock, compiling)
    tell_note(checkpoint)
    numbers = list(prepared)
    with progress_line("forward pass") as progress:
        control = Control(progress=lambda glimpse: progress(glimpse.passes, 0))
        try:
            for ended in run_together(list(prepared.values()), engine, limit, control):
                number = numbers[ended.number]
                if isinstance(ended.result, PassLimit):
                    results[number] = _failed(ended.result)
                    continue
                report, (sentence, status) = generated(
                    prepared[number], ended.session, ended.result, checkpoint
                )
                results[number] = Result(report, sentence, status)
        except KeyboardInterrupt:
            done = f"{len(results)} of {len(launches)} launches"
            raise Failure(f"interrupted after {done}", Exit.INTERRUPTED) from None
    return [results[number] for number in range(len(launches))]


def _failed(error: Exception) -> Result:
    sentence, status = describe(error)
    return Result({}, sentence.partition("\n")[0], status)


def _print_table(
    reports: Sequence[dict[str, Any]], results: Sequence[Result], engine: str, seconds: float
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for heading, justify in (
        ("launch", "right"), ("kernel", "left"), ("PTX\ninstr.", "right"), ("tokens", "right"),
        ("result", "left"), ("s", "right"), ("arrays", "left"),
    ):  # fmt: skip
        table.add_column(heading, justify=justify, no_wrap=heading != "arrays")  # type: ignore[arg-type]
    for report, result in zip(reports, results, strict=True):
        outputs = report.get("outputs", {}).items()
        table.add_row(
            str(report["launch"]), report.get("kernel", ""), _figure(report.get("ptx_instructions")),
            _figure(report.get("tokens")), _verdict(report, result), f"{report.get('seconds', 0):.2f}",
            ", ".join(f"{name} = {o['dtype']}{json.dumps(o['data'])}" for name, o in outputs),
            style="red" if result.status else None,
        )  # fmt: skip
    console.print(table)
    ok = sum(result.status is Exit.OK for result in results)
    console.print(f"{ok} of {len(results)} launches ok on {engine}, {seconds:.1f} s in all")


def _figure(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _verdict(report: dict[str, Any], result: Result) -> str:
    """A result in a few words."""
    if not report.get("kernel"):
        return "failed"
    if report["exact"] is False:
        return "NOT exact"
    if report["expected"] is False:
        return "NOT as expected"
    if report["trap"] is not None:
        return "trap"
    return "as expected" if report["expected"] else "exact" if report["exact"] else "ran"
