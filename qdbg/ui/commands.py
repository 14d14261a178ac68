"""The app's own commands, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qdbg.runtime.commands import SESSION_COMMANDS, Command, always, opened, runnable

if TYPE_CHECKING:
    from qdbg.runtime.control import Control
    from qdbg.ui.app import DebuggerApp


def _here(app: DebuggerApp, argument: str, control: Control) -> str:
    pane = app.desk.source
    return app.toggle(pane.cursor, pane.language == "cuda")


def _cursor(app: DebuggerApp, argument: str, control: Control) -> str:
    pane = app.desk.source
    app.execute(f"until {'cu:' if pane.language == 'cuda' else ''}{pane.cursor}")
    return ""


def _find(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.desk.find(argument) if argument else app.open_prompt("/")


def _plain(act: Callable[[DebuggerApp], str]) -> Callable[[DebuggerApp, str, Control], str]:
    """A command that takes no argument."""
    return lambda app, argument, control: act(app)


def _pane(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.desk.next_pane(argument)


def _memory(app: DebuggerApp, argument: str, control: Control) -> str:
    return app.desk.seek(argument)


_prompt = _plain(lambda app: app.open_prompt(":"))
_zoom = _plain(lambda app: app.desk.toggle_zoom())
_format = _plain(lambda app: app.desk.next_format())
_reference = _plain(lambda app: app.desk.toggle_reference())
_theme = _plain(lambda app: app.toggle_theme())
_help = _plain(lambda app: app.show_help())
_quit = _plain(lambda app: app.leave())

APP_COMMANDS: tuple[Command[DebuggerApp], ...] = (
    Command("here", "", "breakpoint on the cursor's line", _here, ("b", "space", "f9"), (), always),
    Command("cursor", "", "run to the cursor's line", _cursor, ("t",), (), runnable),
    Command("command", "", "the command prompt", _prompt, ("colon",), (), always),
    Command("find", "[TEXT]", "search the source", _find, ("slash",), (), always),
    Command("memory", "PLACE", "show out[40], shared, 0x1200, or where %rd4 points", _memory, (), ("x",)),
    Command("pane", "[NAME]", "the next pane", _pane, (), (), always),
    Command("zoom", "", "one pane alone, and back", _zoom, ("z",), (), always),
    Command("format", "", "numbers: auto, hex, unsigned, float", _format, ("x",), (), always),
    Command("interpreter", "", "its values for every register", _reference, ("i",), (), opened),
    Command("theme", "", "light or dark", _theme, ("T",), (), always),
    Command("help", "", "this list", _help, ("question_mark",), ("h",), always),
    Command("quit", "", "leave the debugger", _quit, ("q",), ("q", "exit"), always),
)

#: Commands that open what takes the keys typed next.  Theirs act before any widget gets to see them, since
#: widgets are told of keys later: what is typed ahead would be commands to the pane.
OPENERS = frozenset({"command", "find", "help"})


def every_command() -> tuple[Command[object], ...]:
    """The session's commands and the app's, in the order of the help page."""
    return (*SESSION_COMMANDS, *APP_COMMANDS)  # type: ignore[arg-type]
