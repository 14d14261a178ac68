"""`qdbg bench`: speed, size and memory, measured side by side."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdbg.cli.failure import Exit, Failure
from qdbg.cli.options import DEFAULT_MAX_PASSES, json_option
from qdbg.cli.progress import COMPILING, progress_line, tell_note

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.sparse.engine import SparseEngine
    from qdbg.runtime.stock import StockEngine
    from qdbg.runtime.suite import Proposal

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
#: From this share of the memory's bandwidth on it is memory that limits an engine.
MEMORY_BOUND = 0.7


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
    from qdbg.runtime.checkpoints import find_or_build
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
        ended = [p for p in proposals if not p.verified.status and not p.verified.endless]
        if not ended:
            raise Failure("none of the kernels runs to an end: there is nothing to time")
        longest = max(ended, key=lambda p: p.verified.tokens)
        ids, tokens = longest.prepared.image.ids, longest.session.tokens
        stage("starting the debugger")
        paints = [measuring.first_paint(Path(longest.verified.path)) for _ in range(effort.paints)]
        stage("building the checkpoint")
        build_s, build_memory = measuring.alone(measuring.build_afresh, NANO)
        stage("opening the engines")
        sparse, stock = SparseEngine(checkpoint.path), StockEngine(checkpoint.path)
        memory = {}
        for name in ("sparse", "stock"):
            stage(f"memory of {name}")
            memory[name] = measuring.alone(measuring.memory_of, (name, NANO, ids, 4))
        speeds = _speeds(sparse, stock, ids, tokens, effort, stage)
        bound = _bound(sparse, ids, min(1_000, len(tokens) - 1), speeds["passes"].each["sparse"])
        points = measuring.growth(
            sparse, NANO, effort.sizes, lambda n: stage(f"a loop of {n:,} rounds on sparse")
        )
    return {
        "machine": measuring.machine(),
        "checkpoint": _checkpoint(checkpoint),
        "launch": {"kernel": longest.verified.path, "launch": longest.verified.launch},
        **speeds_as_json(speeds, memory),
        "bound": bound,
        "first_paint_s": _median([p for p in paints if p is not None]),
        "build_s": round(build_s, 3),
        "build_memory_bytes": build_memory,
        "kernels": [_counted(p) for p in proposals if not p.verified.endless],
        "tokens": _tokens(proposals),
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


def _counted(proposal: Proposal) -> dict[str, Any]:
    v = proposal.verified
    return {
        "kernel": v.kernel,
        "file": v.path,
        "launch": v.launch,
        "prompt_tokens": v.prompt_tokens,
        "tokens": v.tokens,
        "ptx_instructions": v.ptx_instructions,
        "tokens_per_instruction": round(v.tokens / v.ptx_instructions, 3) if v.ptx_instructions else None,
    }


def _tokens(proposals: list[Proposal]) -> dict[str, Any]:
    """Sums over the suite, endless launches left out."""
    counted = [p.verified for p in proposals if not p.verified.endless]
    kinds: Counter[str] = Counter()
    for v in counted:
        kinds.update(v.kinds)
    tokens, instructions = sum(v.tokens for v in counted), sum(v.ptx_instructions for v in counted)
    return {
        "total": tokens,
        "ptx_instructions": instructions,
        "per_instruction": round(tokens / instructions, 3) if instructions else None,
        "kinds": dict(kinds.most_common()),
    }


def _median(values: list[float]) -> float | None:
    from statistics import median

    return round(median(values), 4) if values else None


def print_report(report: dict[str, Any]) -> None:
    """The figures for a person."""
    from rich.console import Console
    from rich.table import Table

    from qdbg.cli.verify_report import WIDTH

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    about = report["machine"]
    console.print(f"{about['processor']}, {about['cores']} cores, one thread; {about['system']}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for heading in ("sparse", "stock", "ratio"):
        table.add_column(heading, justify="right")
    rows = {"passes": "forward passes a second", "prefill": "prefill, tokens a second"}
    rows["verify"] = "verify, tokens a second"
    for kind, label in rows.items():
        key = "passes_per_s" if kind == "passes" else f"{kind}_tokens_per_s"
        found = [f"{report[name][key]:,.0f}" for name in ("sparse", "stock")]
        table.add_row(label, *found, f"{report['ratio'][kind]:,.0f}")
    memory = [_megabytes(report[name]["memory_bytes"]) for name in ("sparse", "stock")]
    table.add_row("peak memory", *memory, "")
    bound = report["bound"]
    table.add_row("weights read in a pass", f"{bound['weight_bytes_per_pass'] / 1e3:,.0f} kB", "", "")
    console.print(table)
    console.print()
    for line in figures(report):
        console.print(line, soft_wrap=True)
    console.print()
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("file", overflow="fold")
    for heading in ("launch", "tokens", "PTX instr.", "tokens/instr."):
        table.add_column(heading, justify="right", no_wrap=True)
    for k in report["kernels"]:
        share = f"{k['tokens_per_instruction']:.2f}" if k["tokens_per_instruction"] else ""
        row = (k["file"], str(k["launch"] or ""), f"{k['tokens']:,}", f"{k['ptx_instructions']:,}", share)
        table.add_row(*row)
    console.print(table)


def figures(report: dict[str, Any]) -> list[str]:
    """What is not a comparison, a sentence each."""
    checkpoint, tokens, growth = report["checkpoint"], report["tokens"], report["growth"]
    paint, bound = report["first_paint_s"], report["bound"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in tokens["kinds"].items())
    first, last = growth["points"][0]["tokens"], growth["points"][-1]["tokens"]
    return [
        f"first picture of the debugger: {f'{paint:.2f} s' if paint is not None else 'not measured here'}",
        f"checkpoint: {_megabytes(checkpoint['bytes'])}, {checkpoint['nonzeros']:,} weights that are not 0, "
        f"{checkpoint['layers']} layers of {checkpoint['hidden']}; built in {report['build_s']:.1f} s "
        f"with {_megabytes(report['build_memory_bytes'])} of memory",
        f"memory gives a thread {bound['memory_bytes_per_s'] / 1e9:.1f} GB a second; the weights that sparse "
        f"reads take {bound['share']:.0%} of that, so "
        + ("memory bounds it" if bound["share"] > MEMORY_BOUND else "its own instructions bound it"),
        f"growth: {1e6 * growth['slope']:,.0f} us of processor time a token, {first:,} to {last:,} tokens, "
        f"straight line with R^2 = {growth['r2']:.5f}",
        f"suite: {tokens['total']:,} tokens for {tokens['ptx_instructions']:,} PTX instructions, "
        f"{tokens['per_instruction']} each: {kinds}",
    ]


def _megabytes(size: int | None) -> str:
    return "?" if size is None else f"{size / 1e6:,.0f} MB"


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
