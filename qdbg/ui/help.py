"""The help page: the command table."""

from __future__ import annotations

from rich.table import Table
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from qdbg.ui.commands import every_command

_KEY_NAMES = {
    "full_stop": ".", "comma": ",", "colon": ":", "slash": "/", "question_mark": "?",
    "left_square_bracket": "[", "right_square_bracket": "]",
}  # fmt: skip
MARKS = """\
!  changed since the lane's last stop      X  differs from the interpreter
-  inactive lane     (4)  the interpreter's value: the machine folded the register into its reader
·  a line that costs no pass of its own: `s` still stops there, `n` and `c` go on to what does\
"""


def key_names(keys: tuple[str, ...]) -> str:
    """Keys as they stand on the keyboard, e.g. `s, F11`."""
    return ", ".join(_KEY_NAMES.get(k, k.upper() if k[:1] == "f" and k[1:].isdigit() else k) for k in keys)


class HelpScreen(ModalScreen[None]):
    """Every command with its key, over the debugger."""

    BINDINGS = [Binding("escape,q,question_mark", "dismiss", show=False)]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 84; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; border-title-style: bold; background: $surface; padding: 0 1;
    }
    """

    def compose(self) -> ComposeResult:
        """One table, scrolled where it does not fit."""
        table = Table(box=None, padding=(0, 1), expand=True)
        table.add_column("key", style="bold", no_wrap=True)
        table.add_column("command", no_wrap=True)
        table.add_column("what it does")
        for command in every_command():
            table.add_row(key_names(command.keys), command.title, command.help)
        table.add_row("tab", "", "the next pane (shift+tab: the one before)")
        table.add_row("ctrl+c", "", "interrupt what is running")
        table.add_row("ctrl+p", "", "the same commands to search in")
        with VerticalScroll() as page:
            page.border_title = "Keys and commands (escape closes)"
            yield Static(table)
            yield Static(MARKS)
