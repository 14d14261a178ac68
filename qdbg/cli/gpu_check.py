"""`qdbg gpu-check`: the interpreter against a real GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdbg.cli.failure import Exit, Failure, complain, describe, first_of, worst
from qdbg.cli.options import json_option
from qdbg.cli.progress import progress_line
from qdbg.cli.verify import kernel_paths

if TYPE_CHECKING:
    from qdbg.runtime.gpu import Gpu
    from qdbg.runtime.gpu_check import Compared
    from qdbg.runtime.suite import Case

#: PTX instructions after which a launch is given up; the interpreter takes about a minute for them.
DEFAULT_LIMIT = 1_000_000
REPORT = Path("gpu-check.json")
#: The table where nobody can say how wide the page is.
WIDTH = 120


@dataclass(frozen=True)
class Checked:
    """A launch, or an approximate instruction by itself, and what came of it.

    approximate: instruction -> the error that the ISA states for it; error: what is wrong, in one sentence.
    """

    what: str
    approximate: dict[str, str]
    compared: Compared | None
    status: Exit
    error: str | None

    def as_json(self) -> dict[str, Any]:
        """An entry of the report."""
        compared = self.compared
        return {
            "what": self.what,
            "same": compared.same if compared else None,
            **(asdict(compared) if compared else {}),
            "approximate": self.approximate,
            "status": int(self.status),
            "error": self.error,
        }


@click.command("gpu-check")
@click.argument("kernels", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "-o", "output", type=click.Path(path_type=Path), default=REPORT, show_default=True, help="The report."
)
@json_option
def gpu_check(kernels: tuple[Path, ...], output: Path, as_json: bool) -> int:
    """Compare the interpreter with a real NVIDIA GPU.

    It runs the launches of KERNELS (files or folders; kernels/ if not given) on the one that is here.  All
    arrays must hold the same bits; only where the file allows a distance (`expect out ~ ... ulp n`) may they
    differ.  Approximate instructions are also run by themselves, and must keep within the error that the PTX
    ISA states.
    """
    from qdbg.runtime.gpu import CudaGpu
    from qdbg.runtime.suite import cases

    gpu = CudaGpu()
    suite = cases(kernel_paths(kernels))
    if not suite:
        raise Failure(f"there is no .cu or .ptx file in {', '.join(map(str, kernels))}")
    try:
        launches, instructions = check_suite(suite, gpu)
    except KeyboardInterrupt:
        raise Failure("interrupted; nothing was written", Exit.INTERRUPTED) from None
    every = launches + instructions
    report = {
        "device": gpu.name,
        **gpu.details,
        "same": all(checked.status is not Exit.MISMATCH for checked in every),
        "launches": [checked.as_json() for checked in launches],
        "instructions": [checked.as_json() for checked in instructions],
    }
    sentences = [f"{checked.what}: {checked.error}" for checked in every if checked.error is not None]
    report |= first_of(sentences)
    output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if as_json:
        click.echo(json.dumps(report))
    else:
        _print_table(every, f"{gpu.name}, compute capability {report['compute_capability']}")
        click.echo(f"report: {output}")
    complain(sentences)
    return worst(checked.status for checked in every)


def check_suite(suite: list[Case], gpu: Gpu) -> tuple[list[Checked], list[Checked]]:
    """Every launch, then every approximate instruction that their kernels contain."""
    from qdbg.compiler.ptx.ir import Instruction, Module
    from qdbg.runtime.gpu_check import approximate, compare_instruction, compare_launch
    from qdbg.runtime.interpreter import error_bound
    from qdbg.runtime.launch_options import LaunchOptions
    from qdbg.runtime.launcher import prepare

    launches: list[Checked] = []
    probes: dict[str, tuple[Instruction, Module]] = {}

    def statements(instructions: dict[str, Instruction]) -> dict[str, str]:
        bounds = {name: error_bound(instruction) for name, instruction in instructions.items()}
        return {name: bound.statement for name, bound in bounds.items() if bound is not None}

    with progress_line("launches compared") as progress:
        for number, case in enumerate(suite):
            progress(number, len(suite))
            try:
                prepared = prepare(Path(case.path), LaunchOptions(number=case.launch), None)
            except Exception as error:
                sentence, status = describe(error)
                launches.append(Checked(str(case), {}, None, status, sentence.partition("\n")[0]))
                continue
            module = prepared.source.ptx
            found = approximate(module)
            probes |= {name: (i, module) for name, i in found.items() if name not in probes}
            compared = compare_launch(prepared.bound, gpu, DEFAULT_LIMIT)
            launches.append(judge(str(case), statements(found), compared))
    instructions = [
        judge(name, statements({name: instruction}), compare_instruction(instruction, module, gpu))
        for name, (instruction, module) in sorted(probes.items())
    ]
    return launches, instructions


def judge(what: str, approximate: dict[str, str], compared: Compared) -> Checked:
    """What a comparison means."""
    sentence = compared.error
    if compared.first is not None:
        more = f" ({compared.wrong} of {compared.elements} elements)" if compared.wrong > 1 else ""
        sentence = f"{compared.first}{more}"
        if approximate and what not in approximate:
            sentence += (
                f"; it uses {', '.join(approximate)}, so if that is why: state `expect NAME ~ ... ulp N`"
            )
    return Checked(what, approximate, compared, Exit.MISMATCH if sentence else Exit.OK, sentence)


def _print_table(every: list[Checked], device: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("launch or instruction", overflow="fold")
    for heading in ("elements", "differ", "wrong"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    for checked in every:
        compared = checked.compared
        figures = (compared.elements, compared.differing, compared.wrong) if compared else (0, 0, 0)
        table.add_row(
            checked.what, *(f"{figure:,}" for figure in figures), _verdict(checked),
            style="red" if checked.status else None,
        )  # fmt: skip
    console.print(table)
    same = sum(bool(checked.compared and checked.compared.same) for checked in every)
    console.print(f"{same} of {len(every)} the same on {device}")


def _verdict(checked: Checked) -> str:
    """A result in a few words."""
    compared = checked.compared
    if compared is None:
        return "failed"
    if compared.error is not None:
        return "no result from the GPU"
    if compared.skipped is not None:
        return f"not compared: {compared.skipped}"
    if compared.wrong:
        return "DIFFERENT"
    if not compared.differing:
        return "the same bits"
    return f"within the error allowed{''.join(f': {s}' for s in _statement(checked))}"


def _statement(checked: Checked) -> list[str]:
    """The error that the ISA states, of an instruction that was run by itself."""
    return [checked.approximate[checked.what]] if checked.what in checked.approximate else []
