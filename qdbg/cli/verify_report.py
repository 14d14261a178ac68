"""What `qdbg verify` prints: a table for a person, an object for a program."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from qdbg.cli.failure import Exit

if TYPE_CHECKING:
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.verified import Verified

#: The table where nobody can say how wide the page is.
WIDTH = 120


def totals(results: list[Verified], seconds: float) -> dict[str, Any]:
    """Sums over a suite; seconds: from start to end, all processes side by side.

    PTX instructions are those of the launches that the model ran.
    """
    checked = sum(r.prompt_tokens + r.tokens for r in results)
    model = sum(r.check_seconds for r in results)
    return {
        "launches": len(results),
        "ok": sum(r.status == 0 and not r.missing for r in results),
        "not_supported_yet": sum(bool(r.missing) for r in results),
        "ptx_instructions": sum(r.ptx_instructions for r in results if not r.missing),
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
            f"not supported yet, so run by the interpreter only: {total['not_supported_yet']} of "
            f"{total['launches']} launches, for want of {needs}",
            soft_wrap=True,
        )


def nothing_tested(results: list[Verified]) -> str | None:
    """A sentence where no launch at all could be put to the model."""
    if not all(result.missing for result in results):
        return None
    needs = ", ".join(sorted({need for result in results for need in result.missing}))
    return (
        f"{results[0].path}: no launch was tested, since the machine lacks what the kernels need ({needs}); "
        "qdbg run --engine interpreter runs them"
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
