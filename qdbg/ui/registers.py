"""Registers of the warp: a row a register, a column a lane, machine and interpreter together."""

from __future__ import annotations

from typing import ClassVar

from textual.reactive import reactive

from qdbg.compiler.machine.config import WARP
from qdbg.runtime.numbers import bits_of, show
from qdbg.runtime.view import RegisterRow, View
from qdbg.ui.pane import Pane, Span, styles

NARROW = 50  #: columns below which the place of a register may be left out
LEAST = 8  #: columns of a cell: a value, its mark and a space


class RegisterPane(Pane):
    """`!` changed since this lane's last stop, `X` differs from the interpreter, whose row then follows.

    A value in parentheses is the interpreter's: the machine folded the register into its reader.
    """

    FIXED = 2  # the lanes, the active mask
    COMPONENT_CLASSES: ClassVar[set[str]] = styles(
        "register", "dim", "focus", "number", "good", "differs", "changed"
    )

    format: reactive[str] = reactive("auto", init=False)
    """How values are shown, one of `numbers.FORMATS`."""
    with_interpreter: reactive[bool] = reactive(False, init=False)
    """Show the interpreter's values under every row, not only where they differ."""

    def __init__(self, id: str):
        super().__init__(id=id)
        self.border_title = "Registers"
        self._rows: list[tuple[RegisterRow, bool]] = []
        self._first = 0
        self._cell = LEAST
        self._head = self._place = 0  #: columns in front of the first lane; of these, for registers' places
        self._columns = range(0)  #: the lanes on the screen
        #: What of each register was measured last: it is formatted again only when it has changed.
        self._measured: dict[str, tuple[bytes, bool]] = {}

    def on_resize(self) -> None:
        """Another width shows another number of lanes."""
        self.changed()

    def watch_format(self) -> None:
        """Another format may need other columns."""
        self._cell = LEAST
        self._measured = {}
        self.changed()

    def watch_with_interpreter(self) -> None:
        """Repaint."""
        self.changed()

    # -- layout -----------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Lay the rows out: an interpreter row follows where it is wanted or needed."""
        view = self.view
        self._rows = []
        for row in view.registers if view else ():
            self._rows.append((row, False))
            if self.with_interpreter or (view and view.mismatch and row.differs.any()):
                self._rows.append((row, True))
        if view:
            # Columns grow with the values and never shrink while one steps: nothing jumps to and fro.
            lanes = slice(view.lanes[0], view.lanes[-1] + 1)
            longest = max((self._longest(row, lanes) for row in view.registers), default=0)
            self._cell = max(self._cell, longest + 2, LEAST + (len(view.lanes) > 10))
            self._arrange_columns(view)
            of = f" of {view.warps}" if view.warps > 1 else ""
            titles = (f"{what}arp {view.warp}{of} ({self.format})" for what in ("Registers of w", "W"))
            shown, count = self._columns, len(view.lanes)
            partial = len(shown) < count
            folded = any(row.place == "folded" for row in view.registers)
            start = shown.start % WARP
            part = f"lanes {start}-{start + len(shown) - 1} of {count}" if partial else ""
            legends = ("(4) folded: interpreter's", "(4) folded") if folded else ()
            subtitles = (*(f"{part}  {legend}".strip() for legend in legends), part)
            self.label(self.fitting(*titles), self.fitting(*subtitles))
        super().changed()

    def _arrange_columns(self, view: View) -> None:
        """As many lanes of the focused warp as fit, the focus lane among them, and registers' places."""
        width = self.scrollable_content_region.width + 1  # the space behind the last cell may be cut off
        name = max(7, *(len(row.name) + 1 for row in view.registers)) if view.registers else 7
        place = max((len(row.place) + 1 for row in view.registers), default=7)
        fit = max(1, (width - name) // self._cell)
        beside = max(1, (width - name - place) // self._cell)
        # On a narrow pane places are shown where that costs no lane.
        free = beside == fit and width >= name + place + self._cell
        self._place = place if width > NARROW or free else 0
        self._head = name + self._place
        fit = beside if self._place else fit
        start, end = view.lanes[0], view.lanes[-1] + 1
        first = min(max(self._first, view.focus - fit + 1), view.focus)
        self._first = max(start, min(first, end - fit))
        self._columns = range(self._first, min(end, self._first + fit))

    def _longest(self, row: RegisterRow, lanes: slice) -> int:
        """Columns of a register's longest value; 0 if these values were measured before."""
        folded = row.place == "folded"
        bits = (row.interpreter if folded else row.machine).bits[lanes]
        seen = bits.tobytes(), bool(row.short[lanes].any())
        if self._measured.get(row.name) == seen:
            return 0
        self._measured[row.name] = seen
        type_ = "b32" if seen[1] else row.type
        if type_.startswith("f") or self.format == "float":
            extremes = set(bits.tolist())
        else:
            # The longest integer is the largest or the smallest, whichever way they are read.
            unsigned = bits << (64 - bits_of(type_))
            signed = unsigned.view("<i8")
            places = (unsigned.argmin(), unsigned.argmax(), signed.argmin(), signed.argmax())
            extremes = {int(bits[place]) for place in places}
        return max(len(show(value, type_, self.format)) for value in extremes) + 2 * folded

    def watch_view(self) -> None:
        """Repaint, and keep the registers that changed on the screen."""
        super().watch_view()
        for y, (row, _) in enumerate(self._rows):
            if row.changed.any() or row.differs.any():
                self.reveal(y + self.FIXED, margin=0)

    # -- rows -------------------------------------------------------------------------------------------

    def rows(self) -> int:
        """Two heading rows and the registers."""
        return self.FIXED + len(self._rows) if self.view else 0

    def row(self, y: int) -> list[Span]:
        """Name, place, then a cell a lane."""
        view = self.view
        assert view is not None
        if y == 0:
            return [self._heading(""), *(self._lane(view, lane) for lane in self._columns)]
        if y == 1:
            return [self._heading("active"), *(self._activity(view, lane) for lane in self._columns)]
        row, reference = self._rows[y - self.FIXED]
        if reference:
            return [self._heading("  ref"), *(self._reference(row, lane) for lane in self._columns)]
        return [
            (row.name.ljust(self._head - self._place), "register" if row.live else "dim"),
            (row.place.ljust(self._place) if self._place else "", "dim"),
            *(self._value(view, row, lane) for lane in self._columns),
        ]

    def _heading(self, text: str) -> Span:
        return text.ljust(self._head), "dim"

    def _put(self, text: str, mark: str = " ") -> str:
        return f"{text.rjust(self._cell - 2)}{mark} "

    def _lane(self, view: View, lane: int) -> Span:
        focus = lane == view.focus
        text = f"{'►' if focus else ''}lane {lane % WARP}".rjust(self._cell - 1)
        return f"{text} ", "focus" if focus else "number"

    def _activity(self, view: View, lane: int) -> Span:
        return (self._put("*"), "good") if view.active[lane] else (self._put("-"), "dim")

    def _text(self, row: RegisterRow, lane: int) -> str:
        value, known = row.machine[lane], row.interpreter[lane]
        if value is not None:
            return show(value, row.shown_type(lane), self.format)
        return (
            f"({show(known, row.type, self.format)})" if row.place == "folded" and known is not None else ""
        )

    def _value(self, view: View, row: RegisterRow, lane: int) -> Span:
        text = self._text(row, lane)
        if row.differs[lane]:
            return self._put(text, "X"), "differs"
        if row.changed[lane]:
            return self._put(text, "!"), "changed"
        quiet = not view.active[lane] or row.stale[lane] or row.machine[lane] is None
        return self._put(text), "dim" if quiet else ""

    def _reference(self, row: RegisterRow, lane: int) -> Span:
        value = row.interpreter[lane]
        text = show(value, row.type, self.format) if value is not None else ""
        return self._put(text), "changed" if row.differs[lane] else "dim"
