"""The generated tokens, newest last, each with what it means."""

from __future__ import annotations

from typing import ClassVar

from qdbg.runtime.view import TokenLine
from qdbg.ui.pane import Pane, Span, styles


class TokenPane(Pane):
    """A row a forward pass: number, PTX line, meaning, and the logit margin where the engine has logits."""

    COMPONENT_CLASSES: ClassVar[set[str]] = styles("number", "dim", "type", "name")

    def __init__(self, id: str):
        super().__init__(id=id)
        self.border_title = "Tokens"
        self._digits = 2
        self._tails: list[int] = []

    def on_resize(self) -> None:
        """Another width has room for other columns."""
        self.changed()

    def changed(self) -> None:
        """Lay the columns out."""
        tokens = self.view.tokens if self.view else ()
        self._digits = max(2, len(str(tokens[-1].number))) if tokens else 2
        self._tails = self._columns(tokens)
        super().changed()

    def rows(self) -> int:
        """One a token that is kept."""
        return len(self.view.tokens) if self.view else 0

    def row(self, y: int) -> list[Span]:
        """One token."""
        assert self.view is not None
        token = self.view.tokens[y]
        tails = [f" ln {token.line}" if token.line else "", f" +{token.margin:.3g}" if token.margin else ""]
        tail = "".join(f"{text:<{w}}" for text, w in zip(tails, self._tails, strict=False))
        head = f"{token.number:>{self._digits}} "
        room = max(0, self.scrollable_content_region.width - len(head) - len(tail))
        newest = y == self.rows() - 1
        return [
            (head, "number"),
            (f"{token.meaning[:room]:<{room}}", "name" if newest else "" if token.line else "dim"),
            (tail, "type"),
        ]

    def _columns(self, tokens: tuple[TokenLine, ...]) -> list[int]:
        """Widths of the columns behind the meaning, PTX line and margin, as far as they cut no meaning."""
        longest = max((len(t.meaning) for t in tokens), default=0)
        left = self.scrollable_content_region.width - self._digits - 1 - longest
        line = max((len(str(t.line)) + 4 for t in tokens if t.line), default=0)
        margin = 10 if any(t.margin for t in tokens) else 0
        widths = [line, margin] if left >= line + margin else [line] if left >= line else []
        return [w for w in widths if w]

    def watch_view(self) -> None:
        """Follow the newest token."""
        super().watch_view()
        self.call_after_refresh(self.reveal, self.rows() - 1, 0)
