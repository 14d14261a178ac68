"""A source pane: PTX or CUDA with line numbers, breakpoints, the current line and a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from qdbg.runtime.view import View, of_warp
from qdbg.ui.highlight import highlight
from qdbg.ui.pane import Pane, Span, styles

#: Gutter glyphs: breakpoint, next instruction, other lanes wait here, line that costs no pass.
BREAK, NEXT, WAITING, FREE = "●", "►", "▷", "·"


class SourcePane(Pane):
    """Shows a source text; `language` is "ptx" or "cuda"."""

    COMPONENT_CLASSES: ClassVar[set[str]] = styles(
        "number", "current", "cursor", "breakpoint", "changed", "dim", "match",
        "name", "keyword", "type", "register", "comment", "literal",
    )  # fmt: skip

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", show=False),
        Binding("down,j", "cursor(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "cursor(-1000000)", show=False),
        Binding("end", "cursor(1000000)", show=False),
    ]

    @dataclass
    class Toggle(Message):
        """The user wants a breakpoint on (or off) a line, counted from 1."""

        pane: SourcePane
        line: int

    def __init__(self, lines: tuple[str, ...], language: str, id: str):
        super().__init__(id=id)
        self.language = language
        self.cursor = 1
        self.current: int | None = None
        self._place: int | None = None  # the line that was last brought into sight
        self.breakpoints: frozenset[int] = frozenset()
        self.waiting: frozenset[int] = frozenset()
        self.covered: frozenset[int] = frozenset()
        self.needle = ""
        self.set_source(lines)

    def set_source(self, lines: tuple[str, ...]) -> None:
        """Show another text."""
        self.lines = lines
        self._spans = highlight(lines, self.language) if lines else []
        self._digits = len(str(len(lines)))
        self._width = max((sum(len(t) for t, _ in spans) for spans in self._spans), default=0)
        self.call_after_refresh(self.changed)
        self.border_title = "CUDA" if self.language == "cuda" else "PTX"

    @property
    def gutter_width(self) -> int:
        """Columns in front of the text."""
        return self._digits + 3

    def rows(self) -> int:
        """One a source line."""
        return len(self.lines)

    def width_needed(self) -> int:
        """The gutter and the longest line."""
        return self.gutter_width + self._width

    def row(self, y: int) -> list[Span]:
        """Gutter and highlighted text."""
        line = y + 1
        if line == self.current:
            mark: Span = (NEXT, "breakpoint" if line in self.breakpoints else "changed")
        elif line in self.waiting:
            mark = (WAITING, "changed")
        else:
            mark = (FREE if line in self.covered else " ", "dim")
        number = f"{line:>{self._digits}} "
        dot: Span = (BREAK if line in self.breakpoints else " ", "breakpoint")
        return [dot, mark, (number, "number"), *self._searched(self._spans[y])]

    def row_style(self, y: int) -> str:
        """The next instruction's line and the cursor's stand out."""
        if y + 1 == self.current:
            return "current"
        return "cursor" if y + 1 == self.cursor and self.has_focus else ""

    def on_resize(self) -> None:
        """A pane that was hidden until now, or got smaller, shows where the machine is."""
        self.reveal(self.cursor - 1)
        self._show_where()

    def watch_view(self) -> None:
        """Follow the machine."""
        view = self.view
        if view is None:
            return
        if self.language == "ptx":
            current, place = view.line, view.place
            self.breakpoints = frozenset(b.line for b in view.breakpoints)
            self.waiting = frozenset(line for line, _ in view.fronts if line != current)
            self.covered = view.covered
            self._show_where()
        else:
            current, place = view.cuda_line, view.cuda_place
            self.breakpoints = frozenset(b.cuda_line for b in view.breakpoints if b.cuda_line)
        moved = place != self._place
        self.current, self._place = current, place
        self.changed()
        if moved and place:
            self.cursor = place
            self.reveal(place - 1)

    def _show_where(self) -> None:
        """Where the lanes of the focused warp stand, as far as there is room for it."""
        if self.view is not None and self.language == "ptx":
            self.label(subtitle=self.fitting(*_where(self.view)))

    def find(self, needle: str, direction: int = 1) -> bool:
        """Move the cursor to the next line that holds `needle` (case ignored); False if none does."""
        self.needle = needle
        count = len(self.lines)
        for distance in range(1, count + 1) if needle else ():
            index = (self.cursor - 1 + direction * distance) % count
            if needle.lower() in self.lines[index].lower():
                self.action_cursor(index + 1 - self.cursor)
                return True
        self.refresh()
        return False

    def action_cursor(self, by: int, margin: int = 2) -> None:
        """Move the cursor; `margin` lines around it stay on the screen."""
        self.cursor = max(1, min(len(self.lines), self.cursor + by))
        self.reveal(self.cursor - 1, margin)
        self.refresh()

    def action_page(self, direction: int) -> None:
        """Move the cursor by a screen."""
        self.action_cursor(direction * max(1, self.scrollable_content_region.height - 1))

    def on_click(self, event: events.Click) -> None:
        """The gutter sets a breakpoint, the text moves the cursor."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = offset.y + round(self.scroll_y) + 1
        if line > len(self.lines):
            return
        self.action_cursor(line - self.cursor, margin=0)
        if offset.x + round(self.scroll_x) < self.gutter_width:
            self.post_message(self.Toggle(self, line))

    def _searched(self, spans: list[Span]) -> list[Span]:
        """Spans with the search text marked."""
        if not self.needle:
            return spans
        result: list[Span] = []
        for text, style in spans:
            while (at := text.lower().find(self.needle.lower())) >= 0:
                result += [(text[:at], style), (text[at : at + len(self.needle)], "match")]
                text = text[at + len(self.needle) :]
            result.append((text, style))
        return result


def _where(view: View) -> list[str]:
    """Where the lanes of the focused warp stand, e.g. `lanes 0-2 at 24  lane 3 at 31`, and shorter texts."""
    fronts = [(line, of_warp(mask, view.warp)) for line, mask in view.fronts]
    parts = [f"{lane_range(mask)} at {line}" for line, mask in fronts if mask]
    counts = [f"{mask.bit_count()} at {line}" for line, mask in fronts if mask]
    shorter = ["  ".join((*parts[:n], "...")) for n in range(len(parts) - 1, 0, -1)]
    return ["  ".join(parts), f"lanes: {', '.join(counts)}", *shorter]


def lane_range(mask: int) -> str:
    """Lanes of a mask as ranges: `lanes 0-2,5`."""
    lanes = [i for i in range(mask.bit_length()) if mask >> i & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"lane{'s' if len(lanes) != 1 else ''} {text}"
