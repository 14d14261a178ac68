"""Memory by the launch's array names, machine and interpreter word by word."""

from __future__ import annotations

from typing import ClassVar

from textual.reactive import reactive

from qdbg.runtime.numbers import show
from qdbg.runtime.places import arrays_of, locate
from qdbg.runtime.view import MemoryArray
from qdbg.ui.pane import Pane, Span, styles

NAME = 8  #: columns for the name of an array, at most
WORDS = (16, 12, 8, 6, 4, 3, 2, 1)  #: how many a row may have: an address every so many is easy to count
LEAST = 6  #: columns of a cell: a value, its mark and a space


class MemoryPane(Pane):
    """`!` changed since the last stop, `X` differs (the interpreter's word then stands below).

    Of local memory it shows what the focused thread has.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = styles("name", "dim", "differs", "changed", "focus")

    format: reactive[str] = reactive("auto", init=False)
    """How words are shown, one of `numbers.FORMATS`."""

    def __init__(self, id: str):
        super().__init__(id=id)
        self.border_title = "Memory"
        self._lines: list[tuple[MemoryArray, int, bool]] = []
        self._cell = LEAST
        self._name_width = self._address_width = 0  #: columns in front of the words
        self._step = 1  #: words a row
        self._sought: tuple[str, int] | None = None  # array and word that somebody asked for

    def on_resize(self) -> None:
        """Another width shows another number of words a row."""
        self.changed()
        if (at := self._sought_row()) is not None:
            self.reveal(at)

    def watch_format(self) -> None:
        """Another format may need other columns."""
        self._cell = LEAST
        self.changed()

    def seek(self, place: str) -> str:
        """Bring a place to the top and mark it, see `places.locate`.  Raises CommandError."""
        assert self.view is not None
        array, word = locate(self.view, place)
        self._sought = array.name, word
        self.changed()
        self.call_after_refresh(self._scroll_to_sought)  # the pane may only now be shown
        return f"{place}: {array.name} at {array.address + 4 * word:#x}"

    def _scroll_to_sought(self) -> None:
        if (at := self._sought_row()) is not None:
            self.scroll_to(y=at, animate=False)

    def _sought_row(self) -> int | None:
        """The row with the word that was asked for; None if there is none."""
        return next((y for y, (array, first, _) in enumerate(self._lines) if self._seeks(array, first)), None)

    def _seeks(self, array: MemoryArray, first: int) -> bool:
        """Whether the row from word `first` on has the word that was asked for."""
        if self._sought is None:
            return False
        name, word = self._sought
        return array.name == name and first <= word < first + self._step

    def changed(self) -> None:
        """Lay the rows out: (array, first word, whether it shows the interpreter's words)."""
        # As with registers, columns grow with the values and do not shrink while one steps.
        view = self.view
        arrays = arrays_of(view) if view else []
        self._cell = max([self._cell, *(self._widest(array) + 2 for array in arrays)])
        self._name_width = min(NAME, max((len(array.name) + 1 for array in arrays), default=NAME))
        ends = (f"{array.address + 4 * len(array.machine):#x} " for array in arrays)
        self._address_width = max(map(len, ends), default=0)
        # The space behind a row's last cell may be cut off.
        room = self.scrollable_content_region.width + 1 - self._name_width - self._address_width
        fit = room // self._cell
        step = self._step = next(n for n in WORDS if n <= max(1, fit))
        self._lines = []
        for array in arrays:
            differs = array.differs
            for first in range(0, len(array.machine), step):
                self._lines.append((array, first, False))
                if differs[first : first + step].any():
                    self._lines.append((array, first, True))
        self.label(f"Memory ({self.format})")
        super().changed()

    def rows(self) -> int:
        """A row for every few words."""
        return len(self._lines)

    def row(self, y: int) -> list[Span]:
        """Name, address, words."""
        array, first, reference = self._lines[y]
        named = not reference and (first == 0 or self._seeks(array, first))
        name = array.name if named else ""
        where = "ref" if reference else f"{array.address + 4 * first:#x}"
        spans: list[Span] = [
            (f"{name[: self._name_width - 1]:<{self._name_width}}", "name"),
            (f"{where:<{self._address_width}}", "dim"),
        ]
        words = array.interpreter if reference else array.machine
        differs = array.differs
        for index in range(first, min(first + self._step, len(words))):
            text = self._text(array, words[index]).rjust(self._cell - 2)
            if differs[index]:
                spans.append((text + "  ", "changed") if reference else (text + "X ", "differs"))
            elif array.changed[index] and not reference:
                spans.append((text + "! ", "changed"))
            else:
                sought = (array.name, index) == self._sought
                spans.append((text + "  ", "dim" if reference else "focus" if sought else ""))
        return spans

    def _widest(self, array: MemoryArray) -> int:
        """Columns of the longest word: of the extremes for integers, of any float for floats."""
        if not len(array.machine):
            return 0
        if self.format == "hex":
            return 8
        if self.format == "float" or (self.format == "auto" and array.dtype.kind == "f"):
            return 11
        kind = "<u4" if self.format == "unsigned" or array.dtype.kind == "u" else "<i4"
        both = (array.machine.view(kind), array.interpreter.view(kind))
        return max(len(str(extreme)) for words in both for extreme in (words.min(), words.max()))

    def _text(self, array: MemoryArray, word: int) -> str:
        return show(int(word), _word_type(array), self.format)


def _word_type(array: MemoryArray) -> str:
    """The PTX type that a 32-bit word of the array is shown as; other sizes show as plain words."""
    if array.dtype.itemsize != 4:
        return "b32"
    return {"f": "f32", "u": "u32", "i": "s32"}[array.dtype.kind]
