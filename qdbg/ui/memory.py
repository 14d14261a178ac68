"""Memory by the launch's array names, machine and interpreter word by word."""

from __future__ import annotations

from typing import ClassVar

from textual.reactive import reactive

from qdbg.runtime.numbers import show
from qdbg.runtime.view import MemoryArray
from qdbg.ui.pane import Pane, Span, styles

NAME, ADDRESS = 8, 8
LEAST = 6  #: columns of a cell: a value, its mark and a space


class MemoryPane(Pane):
    """`!` changed since the last stop, `X` differs (the interpreter's word then stands below).

    Of local memory it shows what the focused thread has.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = styles("name", "dim", "differs", "changed")

    format: reactive[str] = reactive("auto", init=False)
    """How words are shown, one of `numbers.FORMATS`."""

    def __init__(self, id: str):
        super().__init__(id=id)
        self.border_title = "Memory"
        self._lines: list[tuple[MemoryArray, int, bool]] = []
        self._cell = LEAST

    def on_resize(self) -> None:
        """Another width shows another number of words a row."""
        self.changed()

    def watch_format(self) -> None:
        """Another format may need other columns."""
        self._cell = LEAST
        self.changed()

    def words_a_row(self) -> int:
        """The largest power of two that fits, 1 to 16."""
        fit = (self.scrollable_content_region.width - NAME - ADDRESS) // self._cell
        return next(n for n in (16, 8, 4, 2, 1) if n <= max(1, fit))

    def changed(self) -> None:
        """Lay the rows out: (array, first word, whether it shows the interpreter's words)."""
        # As with registers, columns grow with the values and do not shrink while one steps.
        view = self.view
        arrays = [a for a in view.memory if a.thread in (None, view.focus)] if view else []
        self._cell = max([self._cell, *(self._widest(array) + 2 for array in arrays)])
        step = self.words_a_row()
        self._lines = []
        for array in arrays:
            differs = array.differs
            for first in range(0, len(array.machine), step):
                self._lines.append((array, first, False))
                if differs[first : first + step].any():
                    self._lines.append((array, first, True))
        self.border_title = f"Memory ({self.format})"
        super().changed()

    def rows(self) -> int:
        """A row for every few words."""
        return len(self._lines)

    def row(self, y: int) -> list[Span]:
        """Name, address, words."""
        array, first, reference = self._lines[y]
        name = array.name if first == 0 and not reference else ""
        where = "ref" if reference else f"{array.address + 4 * first:#x}"
        spans: list[Span] = [(f"{name[: NAME - 1]:<{NAME}}", "name"), (f"{where:<{ADDRESS}}", "dim")]
        words = array.interpreter if reference else array.machine
        differs = array.differs
        for index in range(first, min(first + self.words_a_row(), len(words))):
            text = self._text(array, words[index]).rjust(self._cell - 2)
            if differs[index]:
                spans.append((text + "  ", "changed") if reference else (text + "X ", "differs"))
            elif array.changed[index] and not reference:
                spans.append((text + "! ", "changed"))
            else:
                spans.append((text + "  ", "dim" if reference else ""))
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
