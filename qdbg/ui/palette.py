"""The command palette: the commands that make sense now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual import on
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.message import Message
from textual.widgets import Input, OptionList

from qdbg.ui.commands import every_command

if TYPE_CHECKING:
    from qdbg.ui.app import DebuggerApp


class DebuggerCommands(Provider):
    """Offers the command table; a command that needs an argument opens the prompt with its name."""

    async def discover(self) -> Hits:
        """Everything that is enabled."""
        for title, help_text, run in self._offers():
            yield DiscoveryHit(title, run, help=help_text)

    async def search(self, query: str) -> Hits:
        """What matches the query."""
        matcher = self.matcher(query)
        for title, help_text, run in self._offers():
            if (score := matcher.match(f"{title} {help_text}")) > 0:
                yield Hit(score, matcher.highlight(title), run, help=help_text)

    def _offers(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        app = cast("DebuggerApp", self.app)
        for command in every_command():
            if command.enabled(app.view):
                needs = command.usage and not command.usage.startswith("[")
                run = (
                    partial(app.open_prompt, ":", f"{command.name} ")
                    if needs
                    else partial(app.execute, command.name)
                )
                yield command.title, command.help, run


class Palette(CommandPalette):
    """The palette, deaf once it is closed: a second enter typed ahead must not choose again."""

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _once(self, event: Message) -> None:
        if not self.is_current:
            event.stop()
            event.prevent_default()
