"""`qdbg compile`: show a kernel at one of the compiler's stages."""

from __future__ import annotations

from pathlib import Path

import click

from qdbg.cli.options import kernel_argument, launch_options
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Image, Prepared


@click.command("compile")
@kernel_argument
@launch_options
@click.option("--emit", type=click.Choice(["ptx", "machine", "prompt"]), default="machine", show_default=True)
def compile_(kernel: Path, launch: LaunchOptions, emit: str) -> None:
    """Show a stage of the compiler.

    That is the PTX, the machine code between its PTX, or the prompt's tokens.  Machine code and prompt
    depend on the launch's geometry, PTX does not.
    """
    if emit == "ptx":
        from qdbg.compiler.source import load_module

        click.echo("\n".join(load_module(kernel, launch.opt).ptx.lines))
        return
    from qdbg.runtime.launcher import prepare

    prepared = prepare(kernel, launch)
    lines = machine_listing(prepared) if emit == "machine" else prompt_listing(prepared.image)
    click.echo("\n".join(lines))


def machine_listing(prepared: Prepared) -> list[str]:
    """One line for each machine instruction, under the PTX instruction that it finishes."""
    program = prepared.image.program
    body = prepared.bound.kernel.body
    lines = [f"// {prepared.title}: {len(body)} PTX instructions, {len(program.code)} machine instructions"]
    previous: tuple[int, ...] = ()
    for pc, instr in enumerate(program.code):
        if instr.ptx != previous:
            lines += [f"{'':6}// {body[i].line}: {body[i].text}" for i in instr.ptx]
        previous = instr.ptx
        entry = "  // entry" if pc == program.entry else ""
        result = f"  // {instr.result}" if instr.result else ""
        lines.append(f"{pc:4}  {instr}{result}{entry}")
    return lines


def prompt_listing(image: Image) -> list[str]:
    """The prompt's tokens, a line for each that addresses a device, runs of values behind it."""
    lines: list[str] = []
    for number, token in zip(image.ids, image.tokens, strict=True):
        text = f"{token}"
        if text.startswith(("<more", "<word")) and lines:
            lines[-1] += f" {text}"
        else:
            lines.append(f"{number:6}  {text}")
    return lines
