"""The two status lines on top, and the line of keys at the bottom."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from qdbg.compiler.machine.config import WARP
from qdbg.runtime.view import State, View
from qdbg.ui.layout import key_line
from qdbg.ui.source import lane_range

_STYLES = {
    State.READY: "status--idle",
    State.STOPPED: "status--stopped",
    State.RUNNING: "status--running",
    State.MISMATCH: "status--bad",
    State.TRAPPED: "status--bad",
    State.ENDED: "status--good",
}


@dataclass(frozen=True)
class Activity:
    """What is going on while no view is current: glyph, sentence, and the fraction done if known."""

    text: str
    fraction: float | None = None
    failed: bool = False


class KeyLine(Static):
    """The keys that matter now."""

    def show(self, width: int, complete: bool, running: bool) -> None:
        """See `layout.key_line`."""
        keys = key_line(width, complete, running)
        if keys != self.content:  # for each new text the screen is laid out again
            self.update(keys)


class StatusLine(Widget):
    """Launch and state; then where the machine stands."""

    COMPONENT_CLASSES = {"status--name", "status--dim", *_STYLES.values()}
    DEFAULT_CSS = """
    StatusLine {
        height: 2; padding: 0 1; background: $panel; color: $text;
        & > .status--name { color: $text-primary; text-style: bold; }
        & > .status--dim { color: $text-muted; }
        & > .status--idle { color: $text-muted; }
        & > .status--stopped { color: $text; text-style: bold; }
        & > .status--running { color: $text-warning; text-style: bold; }
        & > .status--bad { color: $text-error; text-style: bold; }
        & > .status--good { color: $text-success; text-style: bold; }
    }
    """

    view: reactive[View | None] = reactive(None)
    """The newest stop."""
    activity: reactive[Activity | None] = reactive(None)
    """Set while something runs or loads; it replaces the view's status."""

    def __init__(self, title: str, id: str):
        super().__init__(id=id)
        self.launch_title = title

    def render(self) -> Text:
        """Two lines, right-hand parts flush right."""
        width = self.content_size.width
        view = self.view
        title = view.title if view else self.launch_title
        status, style = self._status()
        first = self._line(
            width, [(title, "name"), (view.engine_line if view else "", "dim")], (status, style)
        )
        if view is None:
            return first
        x, y, z = view.thread
        lanes = lane_range(view.mask) if view.mask else "no lane"
        roomy = width >= 100
        digits = max(1, min(len(view.exists), WARP) // 4)
        masks = [Text(f"{mask:0{digits}x}") for mask in view.masks]
        if view.warps > 1:
            masks[view.warp].stylize(self._style("name"))
        active = Text(" ").join([Text("mask"), *masks, Text(lanes)]) if roomy else Text(f"active {lanes}")
        where: list[tuple[str | Text, str]] = [
            (f"block {_dim(view.block, view.grid)}", ""),
            (f"warp {view.warp}", "name" if view.warps > 1 else ""),
            (f"lane {view.focus % WARP}", "name"),
            (f"thread {x},{y},{z}", "dim"),
            (active, ""),
        ]
        counts = f"pass {view.passes:,}  PTX {view.instructions:,}"
        if roomy:
            where.append((f"pc {view.pc}: {view.machine}", "dim"))
        second = self._line(width, where, (counts, "dim"))
        return Text("\n").join([first, second])

    def _status(self) -> tuple[str, str]:
        activity, view = self.activity, self.view
        if activity is not None:
            if activity.failed:
                return f"{State.MISMATCH.value} failed", "bad"
            return f"{State.RUNNING.value} {activity.text}{_bar(activity.fraction)}", "running"
        if view is None:
            return "", "idle"
        return f"{view.state.value} {view.status}", _STYLES[view.state].removeprefix("status--")

    def _line(self, width: int, parts: list[tuple[str | Text, str]], right: tuple[str, str]) -> Text:
        """Parts from the left, one from the right; what does not fit is cut from the left ones."""
        texts = (
            text if isinstance(text, Text) else Text(text, self._style(style))
            for text, style in parts
            if text
        )
        left = Text("  ").join(texts)
        end = Text(right[0], self._style(right[1]))
        end.truncate(width, overflow="ellipsis")
        left.truncate(max(0, width - end.cell_len - 2), overflow="ellipsis")
        return left + Text(" " * max(0, width - left.cell_len - end.cell_len)) + end

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"status--{name}") if name else self.rich_style


def _dim(index: tuple[int, int, int], size: tuple[int, int, int]) -> str:
    """A block index with as many dimensions as the grid has."""
    used = 3 if size[2] > 1 else 2 if size[1] > 1 else 1
    return ",".join(str(i) for i in index[:used])


def _bar(fraction: float | None, width: int = 12) -> str:
    """A progress bar and its percentage."""
    if fraction is None:
        return " ..."
    full = round(max(0.0, min(1.0, fraction)) * width)
    return f" {'█' * full}{'░' * (width - full)} {fraction:4.0%}"
