"""`qdbg bench`: speed, size and memory, measured side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdbg.cli.bench_report import print_report
from qdbg.cli.failure import Exit, Failure
from qdbg.cli.options import DEFAULT_MAX_PASSES, json_option
from qdbg.cli.progress import COMPILING, progress_line, tell_note

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.cost import Cost
    from qdbg.runtime.sparse.engine import SparseEngine
    from qdbg.runtime.stock import StockEngine
    from qdbg.runtime.suite import Proposal
    from qdbg.runtime.verified import Verified

Stage = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    rounds: slices of each engine; passes: in a slice, by engine; trace: tokens that each engine
    verifies in a slice; sizes: rounds of the loop that shows growth; paints: starts of the debugger.
    """

    rounds: int
    passes: tuple[int, int]
    trace: tuple[int, int]
    sizes: tuple[int, ...]
    paints: int


FULL = Effort(15, (400, 4), (2_000, 400), (50, 200, 500, 800, 1_200, 1_600), 5)
QUICK = Effort(2, (100, 2), (300, 40), (10, 30, 60), 1)


@click.command()
@click.argument("kernels", nargs=-1, type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="A first impression, from few repetitions.")
@json_option
def bench(kernels: tuple[Path, ...], quick: bool, as_json: bool) -> int:
    """Measure speed, size and memory.

    KERNELS are files or folders whose tokens are counted; kernels/ if not given.  The longest launch
    among them is the one that the engines are timed with.
    """
    try:
        report = measure(kernels, QUICK if quick else FULL)
    except KeyboardInterrupt:
        raise Failure("interrupted", Exit.INTERRUPTED) from None
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_report(report)
    sys.stdout.flush()
    return Exit.OK


def measure(kernels: tuple[Path, ...], effort: Effort) -> dict[str, Any]:
    """The object that `--json` prints."""
    from qdbg.cli.verify import kernel_paths
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime import bench as measuring
    from qdbg.runtime import bench_processes as processes
    from qdbg.runtime.checkpoints import find_or_build
    from qdbg.runtime.cost import cost
    from qdbg.runtime.sparse import native
    from qdbg.runtime.sparse.engine import SparseEngine
    from qdbg.runtime.stock import StockEngine
    from qdbg.runtime.suite import cases, lacks

    suite = [case for case in cases(kernel_paths(kernels)) if not lacks(case, NANO)]
    with progress_line("building the machine") as progress:
        checkpoint = find_or_build(NANO, progress=progress)
    tell_note(checkpoint)
    for name in ("feed", "check"):  # here, not while they are timed
        with progress_line(COMPILING) as progress:
            native.entry(name, progress)
    with _stages() as stage:
        proposals = []
        for case in suite:
            stage(f"counting tokens: {case}")
            proposals.append(_propose(case))
        counted = [(p.verified, cost(p)) for p in proposals if not p.verified.endless]
        ended = [p for p in proposals if not p.verified.status and not p.verified.endless]
        if not ended:
            raise Failure("none of the kernels runs to an end: there is nothing to time")
        longest = max(ended, key=lambda p: p.verified.tokens)
        ids, tokens = longest.prepared.image.ids, longest.session.tokens
        stage("starting the debugger")
        starts = [processes.first_paint(Path(longest.verified.path)) for _ in range(effort.paints)]
        paints = [start for start in starts if start is not None]
        stage("building the checkpoint")
        build_s, build_memory = processes.alone(processes.build_afresh, NANO)
        stage("opening the engines")
        sparse, stock = SparseEngine(checkpoint.path), StockEngine(checkpoint.path)
        memory = {}
        for name in ("sparse", "stock"):
            stage(f"memory of {name}")
            memory[name] = processes.alone(processes.memory_of, (name, NANO, ids, 4))
        speeds = _speeds(sparse, stock, ids, tokens, effort, stage)
        bound = _bound(sparse, ids, min(1_000, len(tokens) - 1), speeds["passes"].each["sparse"])
        points = measuring.growth(
            sparse, NANO, effort.sizes, lambda n: stage(f"a loop of {n:,} rounds on sparse")
        )
    return {
        "machine": processes.machine(),
        "checkpoint": _checkpoint(checkpoint),
        "launch": {"kernel": longest.verified.path, "launch": longest.verified.launch},
        **speeds_as_json(speeds, memory),
        "bound": bound,
        "first_paint_s": _median([paint.source for paint in paints]),
        "first_prompt_s": _median([paint.prompt for paint in paints]),
        "build_s": round(build_s, 3),
        "build_memory_bytes": build_memory,
        "kernels": [_launch(verified, cost) for verified, cost in counted],
        "tokens": _suite([cost for _, cost in counted]),
        "growth": {
            "points": [{"tokens": n, "seconds": round(s, 6)} for n, s in points],
            **asdict(measuring.fit(points)),
        },
    }


def _propose(case: Any) -> Proposal:
    from qdbg.compiler.machine.config import NANO
    from qdbg.runtime.suite import propose

    return propose(case, NANO, DEFAULT_MAX_PASSES)


def _speeds(
    sparse: SparseEngine,
    stock: StockEngine,
    ids: list[int],
    tokens: list[int],
    effort: Effort,
    stage: Stage,
) -> dict[str, Any]:
    """Rates of both engines: generation, prefill, verify."""
    from qdbg.runtime.bench import checking, generating, rates, reading

    traces = [tokens[:count] for count in effort.trace]
    stage("verify, sparse and stock in turns")
    few = max(1, effort.rounds // 5)
    checked = {"sparse": checking(sparse, ids, traces[0]), "stock": checking(stock, ids, traces[1])}
    verify = rates(checked, few)
    stage("prefill, sparse and stock in turns")
    prefill = rates({"sparse": reading(sparse, ids), "stock": reading(stock, ids)}, few)
    stage("forward passes, sparse and stock in turns")
    passes = [min(count, len(tokens) - 1) for count in effort.passes]
    turns = {
        "sparse": generating(sparse, ids, len(tokens), passes[0]),
        "stock": generating(stock, ids, len(tokens), passes[1]),
    }
    return {"passes": rates(turns, effort.rounds), "prefill": prefill, "verify": verify}


def _bound(sparse: SparseEngine, ids: list[int], passes: int, rate: float) -> dict[str, Any]:
    """What a pass of `sparse` takes from memory, and what memory could give; rate: passes a second."""
    from qdbg.runtime.bench import memory_bandwidth, weights_per_pass

    size, bandwidth = weights_per_pass(sparse, ids, passes), memory_bandwidth()
    return {
        "weight_bytes_per_pass": round(size),
        "memory_bytes_per_s": round(bandwidth),
        "share": round(size * rate / bandwidth, 4),
    }


def speeds_as_json(speeds: dict[str, Any], memory: dict[str, int | None]) -> dict[str, Any]:
    """The parts of the report that compare the engines."""
    engines = {
        name: {
            "passes_per_s": round(speeds["passes"].each[name], 2),
            "prefill_tokens_per_s": round(speeds["prefill"].each[name], 2),
            "verify_tokens_per_s": round(speeds["verify"].each[name], 2),
            "memory_bytes": memory[name],
        }
        for name in ("sparse", "stock")
    }
    return {
        **engines,
        "verify": {"passes_per_s": engines["sparse"]["verify_tokens_per_s"]},
        "ratio": {kind: round(found.ratio, 2) for kind, found in speeds.items()},
    }


def _checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "bytes": checkpoint.size,
        "nonzeros": checkpoint.nonzeros,
        "layers": checkpoint.layers,
        "hidden": checkpoint.hidden,
        "sha256": checkpoint.sha256,
    }


def _launch(verified: Verified, cost: Cost) -> dict[str, Any]:
    return {
        "kernel": verified.kernel,
        "file": verified.path,
        "launch": verified.launch,
        "prompt_tokens": verified.prompt_tokens,
        "tokens": cost.tokens,
        "ptx_instructions": cost.instructions,
        "lane_instructions": cost.lane_instructions,
        "tokens_per_instruction": _each(cost.tokens, cost.instructions),
        "tokens_per_lane_instruction": _each(cost.tokens, cost.lane_instructions),
    }


def _suite(costs: list[Cost]) -> dict[str, Any]:
    """Sums over the suite, by what the tokens are for."""
    from qdbg.runtime.cost import Cost

    total = sum(costs, Cost())
    return {
        "total": total.tokens,
        "ptx_instructions": total.instructions,
        "lane_instructions": total.lane_instructions,
        "per_instruction": _each(total.tokens, total.instructions),
        "per_lane_instruction": _each(total.tokens, total.lane_instructions),
        "kinds": {
            str(purpose): {
                "tokens": tokens,
                "per_instruction": _each(tokens, total.instructions),
                "per_lane_instruction": _each(tokens, total.lane_instructions),
            }
            for purpose, tokens in total.purposes.most_common()
        },
    }


def _each(tokens: int, instructions: int) -> float | None:
    return round(tokens / instructions, 3) if instructions else None


def _median(values: list[float]) -> float | None:
    from statistics import median

    return round(median(values), 4) if values else None


@contextmanager
def _stages() -> Iterator[Stage]:
    """Says on a terminal what is being measured."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update
