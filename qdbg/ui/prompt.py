"""The command line: a prompt with history and completion, and what is asked for in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static


class _Completer(Suggester):
    """Completes the first word from the commands and the second from the kernel's names."""

    def __init__(self, commands: Iterable[str], names: Callable[[], Iterable[str]]):
        super().__init__(use_cache=False, case_sensitive=True)
        self._commands = sorted(commands)
        self._names = names

    async def get_suggestion(self, value: str) -> str | None:
        """The first candidate that goes on from `value`."""
        head, space, word = value.rpartition(" ")
        candidates = self._names() if space else self._commands
        return next((f"{head}{space}{c}" for c in candidates if word and c.startswith(word)), None)


class Prompt(Input):
    """Enter runs a command (an empty line repeats the last), up and down recall, tab completes."""

    BINDINGS = [
        Binding("up", "recall(-1)", show=False),
        Binding("down", "recall(1)", show=False),
        Binding("tab", "cursor_right", show=False),
        Binding("escape", "leave", show=False),
    ]
    DEFAULT_CSS = """
    Prompt { background: $background; &:focus { background-tint: $foreground 0%; } }
    """

    @dataclass
    class Entered(Message):
        """A line to carry out; `kind` is ":" for a command, "/" for a search."""

        text: str
        kind: str

    class Left(Message):
        """The user is done here."""

    def __init__(self, commands: Iterable[str], names: Callable[[], Iterable[str]], id: str):
        super().__init__(id=id, compact=True, select_on_focus=False, suggester=_Completer(commands, names))
        self.kind = ":"
        self.history: dict[str, list[str]] = {":": [], "/": []}
        self._at = 0

    def open(self, kind: str, text: str = "") -> None:
        """Start a command (":") or a search ("/"), with `text` to go on from; the caller moves the focus."""
        self.kind = kind
        self.value = text
        self.cursor_position = len(text)
        self._at = len(self.history[kind])

    def action_recall(self, by: int) -> None:
        """An older or a newer line."""
        lines = self.history[self.kind]
        self._at = max(0, min(len(lines), self._at + by))
        self.value = lines[self._at] if self._at < len(lines) else ""
        self.cursor_position = len(self.value)

    def action_leave(self) -> None:
        """Back to the panes."""
        self.value = ""
        self.post_message(self.Left())

    async def action_submit(self) -> None:
        """Hand the line over."""
        lines = self.history[self.kind]
        text = self.value.strip() or (lines[-1] if lines else "")
        if text and (not lines or lines[-1] != text):
            lines.append(text)
        self._at = len(lines)
        self.value = ""
        self.post_message(self.Entered(text, self.kind))


class CommandLine(Horizontal):
    """The prompt and its name.  Whoever had the focus when it was opened gets it back afterwards."""

    _COMMAND, _SEARCH = "(qdbg) ", "find   "

    def __init__(
        self,
        commands: Iterable[str],
        names: Callable[[], Iterable[str]],
        home: Callable[[], Widget],
        id: str,
    ):
        """commands, names: what to complete words from; home: gets the focus if nobody else can."""
        super().__init__(id=id)
        self._label = Static(self._COMMAND, id="prompt-name")
        self._prompt = Prompt(commands, names, id="prompt")
        self._home = home
        self._before: Widget | None = None

    def compose(self) -> ComposeResult:
        """One line."""
        yield self._label
        yield self._prompt

    def open(self, kind: str, text: str) -> None:
        """See `Prompt.open`; moves the focus."""
        if not isinstance(self.app.focused, Prompt):
            self._before = self.app.focused
        self._label.update(self._COMMAND if kind == ":" else self._SEARCH)
        self._prompt.open(kind, text)
        self._prompt.screen.set_focus(self._prompt)  # at once, unlike `focus`: the next key is the prompt's

    def on_prompt_left(self) -> None:
        """Back to the pane that had the focus."""
        self._label.update(self._COMMAND)
        pane = self._before if self._before is not None and self._before.display else self._home()
        self.screen.set_focus(pane)

    def on_prompt_entered(self) -> None:
        """The same, before the line is carried out."""
        self.on_prompt_left()
