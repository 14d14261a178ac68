"""The table of commands.

Subcommands are imported when they are asked for, and they import the compiler and the engines when
they run, so `qdbg --version` costs no more than click does.
"""

from __future__ import annotations

from importlib import import_module

import click

from qdbg import __version__

#: Subcommand -> "module:object" of its click command.
COMMANDS = {
    "debug": "qdbg.cli.debug:debug",
    "run": "qdbg.cli.run:run",
    "compile": "qdbg.cli.compile:compile_",
    "prompt": "qdbg.cli.tokens:prompt",
    "decode": "qdbg.cli.tokens:decode",
    "build": "qdbg.cli.build:build",
    "verify": "qdbg.cli.verify:verify",
    "bench": "qdbg.cli.bench:bench",
    "gpu-check": "qdbg.cli.gpu_check:gpu_check",
    "doctor": "qdbg.cli.doctor:doctor",
}
#: What the group itself understands; anything else that is not a subcommand opens the debugger.
OWN_OPTIONS = ("--help", "-h", "--version")


class Commands(click.Group):
    """Subcommands by name, imported on use; `debug` is the one that need not be named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            asked = args[1:2]
            if asked and asked[0] not in (*COMMANDS, *OWN_OPTIONS):
                raise click.UsageError(f"there is no command {asked[0]!r}: qdbg help lists them")
            args = [*args[1:], "--help"]
        if args and args[0] not in COMMANDS and args[0] not in OWN_OPTIONS:
            args = ["debug", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="",
    subcommand_metavar="KERNEL [LAUNCH] | COMMAND ...",
)
@click.version_option(__version__, prog_name="qdbg")
def cli() -> None:
    """Debug CUDA kernels that run inside a transformer's weights.

    `qdbg KERNEL` opens the debugger on a .cu or .ptx file.
    """
