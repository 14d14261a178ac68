"""Which panes are on the screen: all of them where they fit, else one on each side."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from textual.geometry import Size

#: In the order in which tab goes through them.
PANES = ("ptx", "registers", "memory", "tokens", "cuda")
COLUMNS = {"left": ("ptx", "cuda"), "middle": ("registers", "memory"), "right": ("tokens",)}
MINIMUM = Size(60, 16)
COMPLETE = Size(120, 30)


@dataclass(frozen=True)
class Arrangement:
    """The visible panes and columns; `complete` when every pane that has content is among them."""

    panes: frozenset[str]
    columns: dict[str, bool]
    complete: bool


def arrange(
    size: Size, front: tuple[str, str], zoomed: str | None, has_cuda: bool, has_ptx: bool
) -> Arrangement | None:
    """The arrangement for a terminal of that size; None where nothing useful fits.

    front: the left and the right pane where not all are shown; has_cuda, has_ptx: whether there is
    such a source (a pane without one is left out).
    """
    if size.width < MINIMUM.width or size.height < MINIMUM.height:
        return None
    there = {p for p in PANES if (p != "cuda" or has_cuda) and (p != "ptx" or has_ptx)}
    roomy = size.width >= COMPLETE.width and size.height >= COMPLETE.height
    wanted = {zoomed} if zoomed else there if roomy else set(front)
    shown = frozenset(there & wanted)
    columns = {column: any(pane in shown for pane in panes) for column, panes in COLUMNS.items()}
    return Arrangement(shown, columns, shown == there)


def key_line(width: int, complete: bool, running: bool) -> Text:
    """The keys that matter now, as many as fit; complete: no pane is hidden."""
    keys = ["s step", "n next line", ". pass", "c continue", "b break", "t to cursor", "S back", "r restart"]
    if running:
        keys = ["ctrl+c interrupt"]
    if not complete:
        keys.insert(1, "tab panes")
    keys += ["z zoom", ": command", "/ find"]
    last = ["? help", "q quit"]
    while sum(len(key) + 2 for key in (*keys, *last)) > width:
        keys.pop()
    line = Text()
    for item in (*keys, *last):
        key, _, what = item.partition(" ")
        line += Text.assemble(" ", (key, "bold"), f" {what} ")
    return line
