"""The base of every pane: lines of styled spans, scrolled, with a title in the border."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from qdbg.runtime.view import View

#: A piece of a line: text and the name of its style (see `styles`), "" for plain.
Span = tuple[str, str]


def styles(*names: str) -> set[str]:
    """The component classes of a pane that uses these styles, out of those in `Pane.DEFAULT_CSS`.

    A pane declares no more than it uses: each costs time before the first picture.
    """
    return {f"pane--{name}" for name in names}


#: Styles with a background of their own.
_OPAQUE = frozenset({"current", "cursor", "differs", "match"})


class Pane(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows `row(y)` for y in range(`rows()`).  Subclasses say what a row is and nothing else.

    A pane keeps its scroll position when the picture changes; it moves only as far as needed to keep
    what `reveal` names on the screen.
    """

    ALLOW_SELECT = False
    # The screen's own tab would go to the prompt as well.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.do('pane')", show=False),
        Binding("shift+tab", "app.back_pane", show=False),
        Binding("up,k", "scroll_up", show=False),
        Binding("down,j", "scroll_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "scroll_end", show=False),
        Binding("shift+left", "scroll_left", show=False),
        Binding("shift+right", "scroll_right", show=False),
    ]
    DEFAULT_CSS = """
    Pane {
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
        background: $background;
        color: $text;
        &:focus { border: round $primary; border-title-color: $text; border-title-style: bold; }
        & > .pane--number { color: $text-muted; }
        & > .pane--current { background: $primary 25%; text-style: bold; }
        & > .pane--cursor { background: $panel; }
        & > .pane--breakpoint { color: $text-error; text-style: bold; }
        & > .pane--changed { color: $text-warning; text-style: bold; }
        & > .pane--differs { color: $text-error; background: $error-muted; text-style: bold; }
        & > .pane--dim { color: auto 50%; }
        & > .pane--name { color: $text-primary; }
        & > .pane--keyword { color: $text-accent; }
        & > .pane--type { color: $text-muted; }
        & > .pane--register { color: $text-secondary; }
        & > .pane--comment { color: auto 50%; text-style: italic; }
        & > .pane--literal { color: $text-success; }
        & > .pane--focus { text-style: bold underline; }
        & > .pane--match { text-style: reverse; }
        & > .pane--good { color: $text-success; }
    }
    """

    FIXED: ClassVar[int] = 0
    """Rows at the top that do not scroll."""

    view: reactive[View | None] = reactive(None, init=False, repaint=False)
    """The newest stop; None until the session is open.  `changed` says what of it to repaint."""

    def __init__(self, id: str):
        super().__init__(id=id)
        self._drawn: dict[int, tuple[str, list[Span]]] = {}  # by line of the viewport
        self._mixed: dict[tuple[str, Style], Style] = {}  # see `style`

    def rows(self) -> int:
        """How many lines there are."""
        raise NotImplementedError

    def row(self, y: int) -> list[Span]:
        """Line y."""
        raise NotImplementedError

    def row_style(self, y: int) -> str:
        """Name of the style under the whole of line y, "" for none."""
        return ""

    def width_needed(self) -> int:
        """Columns of the widest line, as far as it should be reachable by scrolling."""
        return 0

    def changed(self) -> None:
        """The content may have changed: repaint the lines on the screen that did."""
        self.virtual_size = Size(self.width_needed(), self.rows())
        width, height = self.scrollable_content_region.size
        for y in range(height):
            if self._drawn.get(y) != self._line(y):
                self.refresh(Region(0, y, width, 1))

    def watch_view(self) -> None:
        """Repaint at every new picture."""
        self.changed()

    def reveal(self, y: int, margin: int = 2) -> None:
        """Scroll just far enough to have line y on the screen, with some lines around it."""
        height = self.scrollable_content_region.height
        if not height:
            return
        margin = min(margin, max(0, height - self.FIXED - 1) // 2)
        top = round(self.scroll_y)
        if y < top + self.FIXED + margin:
            self.scroll_to(y=max(0, y - self.FIXED - margin), animate=False)
        elif y > top + height - 1 - margin:
            self.scroll_to(y=y - height + 1 + margin, animate=False)

    def label(self, title: str | None = None, subtitle: str | None = None) -> None:
        """Set what the border says; None leaves it.  Textual repaints the pane even for the same text."""
        if title is not None and title != self.border_title:
            self.border_title = title
        if subtitle is not None and subtitle != self.border_subtitle:
            self.border_subtitle = subtitle

    def fitting(self, *texts: str) -> str:
        """The first of these texts that the border has room for, else the last."""
        room = self.outer_size.width - 2 * len("╭─ ")
        return next((text for text in texts if len(text) <= room), texts[-1])

    def text(self) -> str:
        """All lines as plain text."""
        return "\n".join("".join(part for part, _ in self.row(y)) for y in range(self.rows()))

    def style(self, name: str, under: Style) -> Style:
        """The rich style of a span on a line whose own style is `under`."""
        if not name:
            return under
        if (name, under) not in self._mixed:
            style = self.get_component_rich_style(f"pane--{name}")
            self._mixed[name, under] = style if name in _OPAQUE else style + Style(bgcolor=under.bgcolor)
        return self._mixed[name, under]

    def notify_style_update(self) -> None:
        """Another theme: nothing of the old one's styles is left."""
        super().notify_style_update()
        self._mixed = {}

    def render_line(self, y: int) -> Strip:
        """Line y of the viewport (the Textual line API)."""
        left = round(self.scroll_x)
        width = self.scrollable_content_region.width
        style, spans = self._drawn[y] = self._line(y)
        under = self.style(style, self.rich_style)
        if not spans:
            return Strip.blank(width, under)
        segments = [Segment(text, self.style(name, under)) for text, name in spans if text]
        return Strip(segments).crop_extend(left, left + width, under)

    def _line(self, y: int) -> tuple[str, list[Span]]:
        """Line y of the viewport: the style under it and its spans, none behind the last row."""
        index = y if y < self.FIXED else y + round(self.scroll_y)
        return (self.row_style(index), self.row(index)) if 0 <= index < self.rows() else ("", [])
