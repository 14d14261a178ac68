"""`qdbg verify`: a suite of launches, interpreter against engine, in parallel processes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from qdbg.cli.failure import Exit, Failure, describe
from qdbg.cli.options import DEFAULT_ENGINE, json_option, max_passes_option
from qdbg.cli.progress import progress_line, tell_note

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from qdbg.compiler.machine.config import MachineConfig
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.suite import Case, Verified, Verifier
    from qdbg.runtime.workers import Tell

ENGINES = ("sparse", "stock")
DEFAULT_FOLDER = Path("kernels")
#: The table where nobody can say how wide the page is.
WIDTH = 120
#: Seconds between two reports of a process.
_PATIENCE = 0.2


@click.command()
@click.argument("kernels", nargs=-1, type=click.Path(path_type=Path))
@click.option("--engine", type=click.Choice(ENGINES), default=DEFAULT_ENGINE, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; one per core if not given.")
@max_passes_option
@json_option
def verify(kernels: tuple[Path, ...], engine: str, jobs: int | None, max_passes: int, as_json: bool) -> int:
    """Check every token of every launch of KERNELS.

    KERNELS are files or folders; kernels/ if not given.  The interpreter runs each launch and the model
    confirms, many tokens at once, that it would generate the same.
    """
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime.checkpoints import find_or_build
    from qdbg.runtime.suite import cases

    paths = kernel_paths(kernels)
    suite = cases(paths)
    if not suite:
        raise Failure(f"there is no .cu or .ptx file in {', '.join(map(str, paths))}")
    with progress_line("building the machine") as progress:
        checkpoint = find_or_build(NANO, progress=progress)
    tell_note(checkpoint)
    start = time.perf_counter()
    opener, checker = Opener(engine, checkpoint.path), Checker(NANO, max_passes)
    results = run_suite(suite, opener, checker, jobs or os.cpu_count() or 1)
    seconds = time.perf_counter() - start
    if as_json:
        click.echo(json.dumps(report(results, engine, checkpoint, seconds)))
    else:
        print_table(results, engine, seconds)
    sys.stdout.flush()
    for sentence in (result.error for result in results if result.error is not None):
        click.echo(f"qdbg: {sentence}", err=True)
    return status_of(results)


def kernel_paths(named: tuple[Path, ...]) -> tuple[Path, ...]:
    """What the command line names, else kernels/ in the current folder."""
    if not named and not DEFAULT_FOLDER.is_dir():
        raise Failure("there is no folder kernels here; name the kernels, files or folders")
    return named or (DEFAULT_FOLDER,)


@dataclass(frozen=True)
class Opener:
    """Opens the engine of a process.  Raises Failure, which finds its way home from there."""

    engine: str
    checkpoint: Path

    def __call__(self) -> Verifier:
        try:
            if self.engine == "stock":
                from qdbg.runtime.stock import StockEngine

                return StockEngine(self.checkpoint)
            from qdbg.runtime.sparse.engine import SparseEngine

            return SparseEngine(self.checkpoint)
        except Exception as error:
            raise Failure(*describe(error)) from None


class Check(Protocol):
    """Verifies a launch; whatever goes wrong is part of the result."""

    def __call__(self, engine: Verifier, case: Case, tell: Tell, /) -> Verified: ...


@dataclass(frozen=True)
class Checker:
    """The `Check` of the command; tells how many tokens the model has read."""

    config: MachineConfig
    limit: int

    def __call__(self, engine: Verifier, case: Case, tell: Tell, /) -> Verified:
        from qdbg.runtime.suite import Verified, check

        last = time.monotonic()

        def progress(done: int, _total: int) -> None:
            nonlocal last
            if time.monotonic() - last > _PATIENCE:
                last = time.monotonic()
                tell(done)

        try:
            return check(case, engine, self.config, self.limit, progress)
        except Exception as error:
            sentence, status = describe(error)
            return Verified(case.path, case.launch, status=int(status), error=_named(case, sentence))


def run_suite(suite: list[Case], opener: Callable[[], Verifier], check: Check, jobs: int) -> list[Verified]:
    """The results, in the order of the suite.  Raises Failure where no engine opens, or on ctrl+c."""
    from qdbg.runtime.suite import Verified
    from qdbg.runtime.workers import Died, Done, News, spread

    results: dict[Case, Verified] = {}
    try:
        with _bar(len(suite)) as show, closing(spread(suite, jobs, opener, check)) as events:
            for event in events:
                match event:
                    case News(case, read):
                        show(case, read, False)
                    case Done(case, result):
                        results[case] = result
                        show(case, result.prompt_tokens + result.tokens, True)
                    case Died(case, cause):
                        sentence = f"{case}: its process was {cause}; if memory is short: --jobs 1"
                        results[case] = Verified(
                            case.path, case.launch, status=int(Exit.USAGE), error=sentence
                        )
                        show(case, 0, True)
    except KeyboardInterrupt:
        done = f"{len(results)} of {len(suite)} launches"
        raise Failure(f"interrupted after {done}", Exit.INTERRUPTED) from None
    return [results[case] for case in suite]


def status_of(results: list[Verified]) -> Exit:
    """The worst that happened: a mismatch, then what could not be run, then what is not supported."""
    found = {result.status for result in results}
    return next((s for s in (Exit.MISMATCH, Exit.USAGE, Exit.UNSUPPORTED) if s in found), Exit.OK)


def totals(results: list[Verified], seconds: float) -> dict[str, Any]:
    """Sums over a suite; seconds: from start to end, all processes side by side."""
    checked = sum(r.prompt_tokens + r.tokens for r in results)
    model = sum(r.check_seconds for r in results)
    return {
        "launches": len(results),
        "ok": sum(r.status == 0 and not r.missing for r in results),
        "not_supported_yet": sum(bool(r.missing) for r in results),
        "ptx_instructions": sum(r.ptx_instructions for r in results),
        "tokens": sum(r.tokens for r in results),
        "prompt_tokens": sum(r.prompt_tokens for r in results),
        "wrong_tokens": sum(r.wrong is not None for r in results),
        "seconds": round(seconds, 3),
        "tokens_read_per_s_and_process": round(checked / model, 1) if model else None,
    }


def report(results: list[Verified], engine: str, checkpoint: Checkpoint, seconds: float) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "engine": engine,
        "checkpoint_sha256": checkpoint.sha256,
        "kernels": [result.as_json() for result in results],
        "totals": totals(results, seconds),
    }


def print_table(results: list[Verified], engine: str, seconds: float) -> None:
    """The results for a person."""
    from rich.console import Console
    from rich.table import Table

    from qdbg.compiler.ptx.families import FAMILIES

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    folder = _common_folder([r.path for r in results])
    table.add_column(f"file in {folder}" if folder else "file", overflow="fold")
    for heading in ("launch", "PTX\ninstr.", "tokens", "wrong"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for r in results:
        table.add_row(
            r.path.removeprefix(folder and folder + os.sep), str(r.launch or ""),
            f"{r.ptx_instructions:,}", f"{r.tokens:,}", "0" if r.wrong is None else "≥ 1",
            verdict(r), f"{r.seconds:.2f}", style="red" if r.status else None,
        )  # fmt: skip
    console.print(table)
    total = totals(results, seconds)
    rate = total["tokens_read_per_s_and_process"]
    console.print(
        f"{total['ok']} of {total['launches']} launches ok on {engine}: {total['ptx_instructions']:,} PTX "
        f"instructions, {total['tokens']:,} tokens, {total['wrong_tokens']} launches with a wrong one, "
        f"{seconds:.1f} s" + (f", {rate:,.0f} tokens a second and process in the model" if rate else ""),
        soft_wrap=True,
    )
    if lacking := Counter(need for r in results for need in r.missing):
        needs = ", ".join(
            f"{need} ({FAMILIES[need]})" if need in FAMILIES else need for need in sorted(lacking)
        )
        console.print(
            f"{total['not_supported_yet']} launches need what the machine does not have yet, and ran on the "
            f"interpreter only: {needs}",
            soft_wrap=True,
        )


def verdict(result: Verified) -> str:
    """A result in a few words; what is as expected is exact as well."""
    if result.wrong is not None:
        return f"WRONG at pass {result.wrong.number}"
    if result.mismatch is not None:
        return f"MISMATCH at pass {result.mismatch.number}"
    if result.expected is False:
        return "NOT as expected"
    if result.status == Exit.USAGE:
        return "failed"
    if result.missing:
        return f"not supported yet: {', '.join(result.missing)}"
    if result.status == Exit.UNSUPPORTED:
        return "unsupported" if result.trap else "no end"
    if result.endless:
        return "exact, endless"
    if result.trap is not None:
        return "exact, trap"
    return "as expected" if result.expected else "exact"


def _common_folder(paths: list[str]) -> str:
    """The folder that all of the paths are in, "" if they have none in common."""
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:  # relative paths and absolute ones
        return ""


def _named(case: Case, sentence: str) -> str:
    """One line that names the file; most sentences do already, a compiler's goes on for pages."""
    sentence = sentence.partition("\n")[0]
    return sentence if case.path in sentence else f"{case}: {sentence}"


@contextmanager
def _bar(count: int) -> Iterator[Any]:
    """A progress bar on a terminal; hands out `show(case, tokens read of it, done)`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("verify"), BarColumn(), MofNCompleteColumn(), TextColumn("launches,"),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    bar: Bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    start, read = time.monotonic(), dict[Any, int]()
    with bar:
        task = bar.add_task("verify", total=count, rate="opening the engine, which is compiled on first use,")

        def show(case: Case, tokens: int, done: bool) -> None:
            read[case] = max(read.get(case, 0), tokens)
            rate = sum(read.values()) / max(time.monotonic() - start, 1e-9)
            bar.update(task, advance=int(done), rate=f"{rate:,.0f} tokens a second,")

        yield show
