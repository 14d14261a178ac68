"""`qdbg verify`: a suite of launches, interpreter against engine, in parallel processes.

A process of `sparse` runs a launch without a model and has its model read it, one launch after the
other.  For `stock` the processes have no model: all launches then go through one, as one batch.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import click

from qdbg.cli.failure import Exit, Failure, complain, describe, first_of, worst
from qdbg.cli.options import DEFAULT_ENGINE, MODELS, json_option, max_passes_option, stock_options
from qdbg.cli.progress import COMPILING, progress_line, tell_note
from qdbg.cli.verify_report import nothing_tested, print_table, report
from qdbg.runtime.launch_options import StockOptions

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from qdbg.compiler.machine.config import MachineConfig
    from qdbg.runtime.suite import BatchVerifier, Case, Claim, Verifier
    from qdbg.runtime.verified import Verified
    from qdbg.runtime.workers import Tell

DEFAULT_FOLDER = Path("kernels")
#: Seconds between two reports of a process.
_PATIENCE = 0.2


Tools = TypeVar("Tools")
Tools_ = TypeVar("Tools_", contravariant=True)
Result = TypeVar("Result", bound="Read")
Result_ = TypeVar("Result_", covariant=True)


@click.command()
@click.argument("kernels", nargs=-1, type=click.Path(path_type=Path))
@stock_options
@click.option("--engine", type=click.Choice(MODELS), default=DEFAULT_ENGINE, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; one per core if not given.")
@max_passes_option
@json_option
def verify(
    kernels: tuple[Path, ...],
    engine: str,
    stock: StockOptions,
    jobs: int | None,
    max_passes: int,
    as_json: bool,
) -> int:
    """Check every token of every launch of KERNELS.

    KERNELS are files or folders; kernels/ if not given.  An emulator of the machine runs each launch in
    step with the interpreter, and the model confirms, many tokens at once, that it would generate the same.
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
    if engine == "sparse":
        from qdbg.runtime.sparse import native

        with progress_line(COMPILING) as progress:
            native.entry("check", progress)
    start = time.perf_counter()
    jobs = jobs or os.cpu_count() or 1
    if engine == "stock":
        from qdbg.runtime.stock import StockEngine

        model = StockEngine(checkpoint.path, stock.dtype, stock.device, threads=jobs)
        results = run_batch(suite, model, NANO, max_passes, jobs)
    else:
        results = run_suite(suite, Opener(checkpoint.path), Checker(NANO, max_passes), jobs, failed)
    seconds = time.perf_counter() - start
    sentences = [result.error for result in results if result.error is not None]
    status = worst(result.status for result in results)
    if status is Exit.OK and (untested := nothing_tested(results)):
        sentences, status = [untested], Exit.UNSUPPORTED
    if as_json:
        click.echo(json.dumps(report(results, engine, checkpoint, seconds) | first_of(sentences)))
    else:
        print_table(results, engine, seconds)
    complain(sentences)
    return status


def kernel_paths(named: tuple[Path, ...]) -> tuple[Path, ...]:
    """What the command line names, else kernels/ in the current folder."""
    if not named and not DEFAULT_FOLDER.is_dir():
        raise Failure("there is no folder kernels here; name the kernels, files or folders")
    return named or (DEFAULT_FOLDER,)


@dataclass(frozen=True)
class Opener:
    """Opens the sparse engine of a process.  Raises Failure, which finds its way home from there."""

    checkpoint: Path

    def __call__(self) -> Verifier:
        from qdbg.runtime.sparse.engine import SparseEngine

        try:
            return SparseEngine(self.checkpoint)
        except Exception as error:
            raise Failure(*describe(error)) from None


def no_tools() -> None:
    """Opens nothing: the interpreter needs no model."""


class Read(Protocol):
    """What comes of a launch in a process; read: tokens of it that a model has read."""

    @property
    def read(self) -> int: ...


class Work(Protocol, Generic[Tools_, Result_]):
    """Works on a launch; whatever goes wrong is part of the result."""

    def __call__(self, tools: Tools_, case: Case, tell: Tell, /) -> Result_: ...


@dataclass(frozen=True)
class Checker:
    """Runs a launch on the interpreter and has the model read it; tells how many tokens it has read."""

    config: MachineConfig
    limit: int

    def __call__(self, engine: Verifier, case: Case, tell: Tell, /) -> Verified:
        from qdbg.runtime.suite import check

        last = time.monotonic()

        def progress(done: int, _total: int) -> None:
            nonlocal last
            if time.monotonic() - last > _PATIENCE:
                last = time.monotonic()
                tell(done)

        try:
            return check(case, engine, self.config, self.limit, progress)
        except Exception as error:
            return failed(case, *describe(error))


@dataclass(frozen=True)
class Claimer:
    """Runs a launch on the interpreter, for a model to read later."""

    config: MachineConfig
    limit: int

    def __call__(self, _nothing: None, case: Case, _tell: Tell, /) -> Claim:
        from qdbg.runtime.suite import claim

        try:
            return claim(case, self.config, self.limit)
        except Exception as error:
            return unclaimed(case, *describe(error))


def failed(case: Case, sentence: str, status: Exit) -> Verified:
    """The result of a launch that could not be run."""
    from qdbg.runtime.verified import Verified

    return Verified(case.path, case.launch, status=int(status), error=_named(case, sentence))


def unclaimed(case: Case, sentence: str, status: Exit) -> Claim:
    """The same where no model has been asked yet."""
    from qdbg.runtime.suite import Claim

    return Claim(failed(case, sentence, status), [], [])


def run_batch(
    suite: list[Case], model: BatchVerifier, config: MachineConfig, limit: int, jobs: int
) -> list[Verified]:
    """The results, in the order of the suite, of launches that a model reads as one batch.

    Raises what `run_suite` and the model do.
    """
    from qdbg.runtime.suite import check_batch

    claims = run_suite(suite, no_tools, Claimer(config, limit), jobs, unclaimed)
    with progress_line("tokens read") as progress:
        try:
            return check_batch(claims, model, config, progress)
        except KeyboardInterrupt:
            raise _interrupted(0, len(suite)) from None


def run_suite(
    suite: list[Case],
    opener: Callable[[], Tools],
    work: Work[Tools, Result],
    jobs: int,
    lost: Callable[[Case, str, Exit], Result],
) -> list[Result]:
    """The results, in the order of the suite; `lost` makes that of a launch whose process ended.

    Raises Failure where no engine opens, or on ctrl+c.
    """
    from qdbg.runtime.workers import Died, Done, News, spread

    results: dict[Case, Result] = {}
    try:
        with _bar(len(suite)) as show, closing(spread(suite, jobs, opener, work)) as events:
            for event in events:
                match event:
                    case News(case, read):
                        show(case, read, False)
                    case Done(case, result):
                        results[case] = result
                        show(case, result.read, True)
                    case Died(case, cause):
                        sentence = f"{case}: its process was {cause}; if memory is short: --jobs 1"
                        results[case] = lost(case, sentence, Exit.USAGE)
                        show(case, 0, True)
    except KeyboardInterrupt:
        raise _interrupted(len(results), len(suite)) from None
    return [results[case] for case in suite]


def _interrupted(done: int, launches: int) -> Failure:
    return Failure(f"interrupted after {done} of {launches} launches", Exit.INTERRUPTED)


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
