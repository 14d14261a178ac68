"""The message line: what a command says, in at most three lines."""

from __future__ import annotations

import textwrap

from rich.text import Text
from textual import events
from textual.widgets import Static

LINES = 3


class MessageLine(Static):
    """Shows a sentence whole where it fits, else as much as fits and an ellipsis."""

    DEFAULT_CSS = f"""
    MessageLine {{
        height: auto; min-height: 1; max-height: {LINES}; padding: 0 1; color: $text-muted;
        &.bad {{ color: $text-error; text-style: bold; }}
    }}
    """

    def __init__(self, id: str):
        super().__init__(Text(), id=id)
        self._said = ""

    def say(self, text: str, bad: bool = False) -> None:
        """Show a sentence, "" for none; bad: it says what is wrong."""
        self._said = text
        self.set_class(bad, "bad")
        self._fit()

    def on_resize(self, event: events.Resize) -> None:
        """Another width holds more or less of it."""
        self._fit()

    def _fit(self) -> None:
        width = max(1, self.app.size.width - 2)
        cut = textwrap.wrap(self._said, width, max_lines=LINES, placeholder=" …")
        text = Text("\n".join(cut) if cut and cut[-1].endswith(" …") else self._said)
        if text != self.content:  # for each new text the screen is laid out again
            self.update(text)
