"""The panes, and which of them are on the screen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from qdbg.runtime.commands import CommandError
from qdbg.runtime.numbers import FORMATS
from qdbg.runtime.view import View
from qdbg.ui.layout import PANES, Arrangement, arrange
from qdbg.ui.memory import MemoryPane
from qdbg.ui.registers import RegisterPane
from qdbg.ui.source import SourcePane
from qdbg.ui.tokens import TokenPane

Sources = dict[str, tuple[str, ...]]


class Desk(Horizontal):
    """All panes of the debugger.  Methods that a command calls return a note, "" for none."""

    view: reactive[View | None] = reactive(None, repaint=False)
    """The newest stop; None until the session is open."""

    def __init__(self, sources: Sources, id: str):
        """sources: the lines of "ptx" and "cuda", () for what is not known."""
        super().__init__(id=id)
        self.sources = sources
        self.front = ("ptx" if sources["ptx"] else "cuda", "registers")  # where not every pane fits
        self.zoomed: str | None = None

    def compose(self) -> ComposeResult:
        """Three columns."""
        with Vertical(id="left"):
            yield SourcePane(self.sources["ptx"], "ptx", id="ptx").data_bind(Desk.view)
            yield SourcePane(self.sources["cuda"], "cuda", id="cuda").data_bind(Desk.view)
        with Vertical(id="middle"):
            yield RegisterPane(id="registers").data_bind(Desk.view)
            yield MemoryPane(id="memory").data_bind(Desk.view)
        with Vertical(id="right"):
            yield TokenPane(id="tokens").data_bind(Desk.view)

    def lay_out(self, size: Size) -> Arrangement | None:
        """Show what fits a terminal of that size; None if nothing useful does."""
        has = {name: bool(lines) for name, lines in self.sources.items()}
        shown = arrange(size, self.front, self.zoomed, has["cuda"], has["ptx"])
        if shown is not None:
            for name in PANES:
                self.query_one(f"#{name}").display = name in shown.panes
            self.set_class(not shown.complete, "compact")
            for column, there in shown.columns.items():
                self.query_one(f"#{column}").display = there
        return shown

    def set_sources(self, sources: Sources) -> None:
        """Both texts are known: the PTX comes to the front."""
        self.sources = sources
        for name, lines in sources.items():
            self.query_one(f"#{name}", SourcePane).set_source(lines)
        self.front = ("ptx", self.front[1])

    @property
    def source(self) -> SourcePane:
        """The source pane that has the focus, else the one in front."""
        focused: Widget | None = self.app.focused
        if isinstance(focused, SourcePane) and focused.display:
            return focused
        return self.query_one(f"#{self.front[0]}", SourcePane)

    @property
    def names(self) -> list[str]:
        """Registers and arrays, for completion."""
        view = self.view
        return [r.name for r in view.registers] + [m.name for m in view.memory] if view else []

    def find(self, text: str) -> str:
        """Search the source in use."""
        return "" if not text or self.source.find(text) else f"no line holds {text!r}"

    def toggle_zoom(self) -> str:
        """The focused pane alone, or all again."""
        focused = self.app.focused
        there = focused is not None and focused.id in PANES
        self.zoomed = None if self.zoomed else (focused.id if there and focused else self.front[0])
        return ""

    def next_pane(self, name: str = "", by: int = 1) -> str:
        """Focus a pane, bringing it to the front where not all are shown."""
        there = [p for p in PANES if self.sources.get(p, True)]
        if name and name not in there:
            raise CommandError(f"there is no pane {name!r}: {', '.join(there)}")
        focused = self.app.focused
        at = there.index(focused.id) if focused is not None and focused.id in there else -by
        target = name or there[(at + by) % len(there)]
        left, right = self.front
        self.front = (target, right) if target in ("ptx", "cuda") else (left, target)
        if self.zoomed:
            self.zoomed = target
        # The pane may only now be shown, and what is hidden cannot take the focus.
        self.call_after_refresh(self.query_one(f"#{target}").focus)
        return ""

    def seek(self, place: str) -> str:
        """A place in memory, with the pane that shows it.  Raises CommandError."""
        note = self.query_one(MemoryPane).seek(place)
        self.next_pane("memory")
        return note

    def next_format(self) -> str:
        """Another number format in registers and memory."""
        registers, memory = self.query_one(RegisterPane), self.query_one(MemoryPane)
        registers.format = memory.format = FORMATS[(FORMATS.index(registers.format) + 1) % len(FORMATS)]
        return f"numbers: {registers.format}"

    def toggle_reference(self) -> str:
        """The interpreter's values under every register, or only where they differ."""
        pane = self.query_one(RegisterPane)
        pane.with_interpreter = not pane.with_interpreter
        return "the interpreter's values: " + ("all" if pane.with_interpreter else "where they differ")
