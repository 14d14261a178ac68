"""The app's own commands, and the table of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdbg.runtime.commands import SESSION_COMMANDS, Command, always, opened, runnable

if TYPE_CHECKING:
    from qdbg.runtime.session import Control
    from qdbg.ui.app import DebuggerApp


def _here(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.toggle_here()


def _cursor(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.run_to_cursor()


def _quit(app: DebuggerApp, argument: str, control: Control) -> str:
    app.leave()
    return ""


def _help(app: DebuggerApp, argument: str, control: Control) -> str:
    app.show_help()
    return ""


def _prompt(app: DebuggerApp, argument: str, control: Control) -> str:
    app.open_prompt(":")
    return ""


def _find(app: DebuggerApp, argument: str, control: Control) -> str:
    if argument:
        return app.find(argument)
    app.open_prompt("/")
    return ""


def _zoom(app: DebuggerApp, argument: str, control: Control) -> str:
    app.toggle_zoom()
    return ""


def _pane(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.next_pane(argument)


def _format(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.next_format()


def _reference(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.toggle_reference()


def _theme(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.toggle_theme()


APP_COMMANDS: tuple[Command[DebuggerApp], ...] = (
    Command("here", "", "breakpoint on the cursor's line", _here, ("b", "space", "f9")),
    Command("cursor", "", "run to the cursor's line", _cursor, ("t",), (), runnable),
    Command("command", "", "the command prompt", _prompt, ("colon",), (), always),
    Command("find", "[TEXT]", "search the source", _find, ("slash",), (), always),
    Command("pane", "[NAME]", "the next pane", _pane, (), (), always),
    Command("zoom", "", "one pane over the whole screen, and back", _zoom, ("z",), (), always),
    Command("format", "", "number format: auto, hex, unsigned, float", _format, ("x",), (), always),
    Command("interpreter", "", "the interpreter's values under every register", _reference, ("i",), (), opened),
    Command("theme", "", "light or dark", _theme, ("T",), (), always),
    Command("help", "", "this list", _help, ("question_mark",), ("h",), always),
    Command("quit", "", "leave the debugger", _quit, ("q",), ("q", "exit"), always),
)  # fmt: skip


def every_command() -> tuple[Command[object], ...]:
    """The session's commands and the app's, in the order of the help page."""
    return (*SESSION_COMMANDS, *APP_COMMANDS)  # type: ignore[arg-type]
