"""The generated tokens, newest last, each with what it means."""

from __future__ import annotations

from typing import ClassVar

from qdbg.ui.pane import Pane, Span, styles


class TokenPane(Pane):
    """A row a forward pass: number, PTX line, meaning, and the logit margin where the engine has logits."""

    COMPONENT_CLASSES: ClassVar[set[str]] = styles("number", "dim", "type", "name")

    def __init__(self, id: str):
        super().__init__(id=id)
        self.border_title = "Tokens"

    def rows(self) -> int:
        """One a token that is kept."""
        return len(self.view.tokens) if self.view else 0

    def row(self, y: int) -> list[Span]:
        """One token."""
        assert self.view is not None
        token = self.view.tokens[y]
        width = self.scrollable_content_region.width
        margin = f"+{token.margin:.3g}" if token.margin is not None else ""
        line = f"ln {token.line}" if token.line else ""
        head = f"{token.number:>5}  "
        tail = f" {line} {margin} ".rstrip() + " "
        room = max(0, width - len(head) - len(tail))
        newest = y == self.rows() - 1
        return [
            (head, "number"),
            (f"{token.meaning[:room]:<{room}}", "name" if newest else "" if token.line else "dim"),
            (tail, "type"),
        ]

    def watch_view(self) -> None:
        """Follow the newest token."""
        super().watch_view()
        self.call_after_refresh(self.reveal, self.rows() - 1, 0)
