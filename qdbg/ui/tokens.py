"""The generated tokens, newest last, each with what it means."""

from __future__ import annotations

from qdbg.ui.pane import Pane, Span


class TokenPane(Pane):
    """A row a forward pass: number, PTX line, meaning, and the logit margin where the engine has logits."""

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
        body = token.meaning
        room = max(0, width - len(head) - len(line) - len(margin) - 4)
        last = y == len(self.view.tokens) - 1
        return (
            [
                (head, "number"),
                (f"{body[:room]:<{room}}", "" if token.line else "dim"),
                (f" {line} ", "type"),
                (f"{margin} ", "dim"),
            ]
            if not last
            else [(head, "number"), (f"{body[:room]:<{room}}", "name"), (f" {line} {margin} ", "type")]
        )

    def watch_view(self) -> None:
        """Follow the newest token."""
        super().watch_view()
        self.reveal(self.rows() - 1, margin=0)
