"""What `qdbg bench` prints for a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from qdbg.cli.verify_report import WIDTH

if TYPE_CHECKING:
    from rich.table import Table

#: From this share of the memory's bandwidth on it is memory that limits an engine.
MEMORY_BOUND = 0.7


def print_report(report: dict[str, Any]) -> None:
    """The figures for a person."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    about = report["machine"]
    console.print(f"{about['processor']}, {about['cores']} cores, one thread; {about['system']}")
    console.print(_engines(report))
    console.print()
    for line in figures(report):
        console.print(line, soft_wrap=True)
    for table in (_kinds(report["tokens"]), _launches(report["kernels"])):
        console.print()
        console.print(table)


def _table(first: str, *others: str) -> Table:
    """A table of numbers, named in the first column."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _engines(report: dict[str, Any]) -> Table:
    """The engines side by side."""
    table = _table("", "sparse", "stock", "ratio")
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
    return table


def _kinds(tokens: dict[str, Any]) -> Table:
    """What the suite's tokens are for."""
    table = _table("tokens for", "tokens", "share", "a PTX instr.", "a lane's instr.")
    whole = {
        "tokens": tokens["total"],
        "per_instruction": tokens["per_instruction"],
        "per_lane_instruction": tokens["per_lane_instruction"],
    }
    for name, kind in {**tokens["kinds"], "all": whole}.items():
        each = (_rate(kind["per_instruction"]), _rate(kind["per_lane_instruction"]))
        table.add_row(name, f"{kind['tokens']:,}", f"{kind['tokens'] / tokens['total']:.1%}", *each)
    return table


def _launches(launches: list[dict[str, Any]]) -> Table:
    table = _table("file", "launch", "tokens", "PTX instr.", "tokens each", "a lane's instr.", "tokens each")
    for k in launches:
        warp = (f"{k['ptx_instructions']:,}", _rate(k["tokens_per_instruction"]))
        lane = (f"{k['lane_instructions']:,}", _rate(k["tokens_per_lane_instruction"]))
        table.add_row(k["file"], str(k["launch"] or ""), f"{k['tokens']:,}", *warp, *lane)
    return table


def _rate(tokens: float | None) -> str:
    return "" if tokens is None else f"{tokens:.2f}"


def figures(report: dict[str, Any]) -> list[str]:
    """What is not a comparison, a sentence each."""
    checkpoint, tokens, growth = report["checkpoint"], report["tokens"], report["growth"]
    paint, bound = report["first_paint_s"], report["bound"]
    opened = (
        f"source after {paint:.2f} s, prompt after {report['first_prompt_s']:.2f} s" if paint else "not here"
    )
    first, last = growth["points"][0]["tokens"], growth["points"][-1]["tokens"]
    return [
        f"start of the debugger: {opened}",
        f"checkpoint: {_megabytes(checkpoint['bytes'])}, {checkpoint['nonzeros']:,} weights that are not 0, "
        f"{checkpoint['layers']} layers of {checkpoint['hidden']}; built in {report['build_s']:.1f} s "
        f"with {_megabytes(report['build_memory_bytes'])} of memory",
        f"memory gives a thread {bound['memory_bytes_per_s'] / 1e9:.1f} GB a second; the weights that sparse "
        f"reads take {bound['share']:.0%} of that, so "
        + ("memory bounds it" if bound["share"] > MEMORY_BOUND else "its own instructions bound it"),
        f"growth: {1e6 * growth['slope']:,.0f} us of processor time a token, {first:,} to {last:,} tokens, "
        f"straight line with R^2 = {growth['r2']:.5f}",
        f"suite: {tokens['total']:,} tokens for {tokens['ptx_instructions']:,} PTX instructions, "
        f"{tokens['per_instruction']} each, or {tokens['lane_instructions']:,} of single lanes, "
        f"{tokens['per_lane_instruction']} each",
    ]


def _megabytes(size: int | None) -> str:
    return "?" if size is None else f"{size / 1e6:,.0f} MB"
