"""The debugger's screen.

The app opens at once with the source; a `Runner` opens the session in its own thread and reports.
Each stop arrives as one frozen `View`, to which every pane is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from qdbg.runtime.breakpoints import BreakpointError
from qdbg.runtime.commands import Command, CommandError, lookup, parse
from qdbg.runtime.numbers import FORMATS
from qdbg.runtime.session import Control, Session
from qdbg.runtime.view import State, View
from qdbg.ui import runner
from qdbg.ui.commands import APP_COMMANDS, every_command
from qdbg.ui.header import Activity, StatusLine
from qdbg.ui.layout import MINIMUM, PANES, Arrangement, arrange
from qdbg.ui.memory import MemoryPane
from qdbg.ui.prompt import Prompt
from qdbg.ui.registers import RegisterPane
from qdbg.ui.source import SourcePane
from qdbg.ui.tokens import TokenPane

if TYPE_CHECKING:
    from textual.command import Provider

#: Says in one sentence what an error means, and the exit status that it stands for.
Describe = Callable[[Exception], tuple[str, int]]


def _palette() -> type[Provider]:
    from qdbg.ui.palette import DebuggerCommands

    return DebuggerCommands


class DebuggerApp(App[int]):
    """Debugs one launch; the return value is the exit status."""

    CSS_PATH = "debugger.tcss"
    COMMANDS = {_palette}
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+q", "do('quit')", show=False, priority=True),
        *(
            Binding(key, f"do('{command.name}')", command.help, show=False)
            for command in every_command()
            for key in command.keys
        ),
    ]

    view: reactive[View | None] = reactive(None)
    """The newest stop; None until the session is open."""
    front: reactive[tuple[str, str]] = reactive(("ptx", "registers"))
    """Where not every pane fits: the one shown on the left and the one on the right."""
    zoomed: reactive[str | None] = reactive(None)
    """The pane that fills the screen, if any."""

    def __init__(
        self,
        open_session: runner.OpenSession,
        title: str,
        lines: tuple[str, ...],
        language: str,
        describe: Describe,
    ):
        """lines, language ("cuda" or "ptx"): what to show until the session is open."""
        super().__init__()
        self.title = title
        self.describe = describe
        self.session: Session | None = None
        self.runner = runner.Runner(open_session, self.post_message)
        self.status = 0  #: exit status as far as is known
        self._sources = {"ptx": (), "cuda": (), language: lines}
        self._size_now: Size | None = None
        self._early: list[tuple[int, bool]] = []  # breakpoints asked for before the session was open
        if language == "cuda":
            self.front = ("cuda", "registers")

    # -- widgets --------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Status, panes, message, prompt, keys."""
        bound = DebuggerApp.view
        with Vertical(id="main"):
            yield StatusLine(self.title or "", id="status").data_bind(view=bound)
            with Horizontal(id="body"):
                with Vertical(id="left"):
                    yield SourcePane(self._sources["ptx"], "ptx", id="ptx").data_bind(view=bound)
                    yield SourcePane(self._sources["cuda"], "cuda", id="cuda").data_bind(view=bound)
                with Vertical(id="middle"):
                    yield RegisterPane(id="registers").data_bind(view=bound)
                    yield MemoryPane(id="memory").data_bind(view=bound)
                with Vertical(id="right"):
                    yield TokenPane(id="tokens").data_bind(view=bound)
            yield Static(id="message")
            with Horizontal(id="command"):
                yield Static("(qdbg) ", id="prompt-name")
                names = [name for c in every_command() for name in (c.name,)]
                yield Prompt(names, self._names, id="prompt")
            yield Static(id="keys")
        yield Static(id="tiny")

    def on_mount(self) -> None:
        """Arrange, then open the session once the first picture is on the screen."""
        self._source_pane().focus()
        self._arrange()
        self.query_one(StatusLine).activity = Activity("opening")
        self.call_after_refresh(self.runner.start)

    def on_resize(self, event: events.Resize) -> None:
        """Another size may hold other panes."""
        self._size_now = event.size
        self._arrange()

    def watch_front(self) -> None:
        """Show other panes."""
        self._arrange()

    def watch_zoomed(self) -> None:
        """Show other panes."""
        self._arrange()

    def _arrange(self) -> None:
        if not self.is_running or not self.screen_stack:
            return
        size = self._size_now or self.size  # at a resize the app's own size is still the old one
        shown = arrange(
            size, self.front, self.zoomed, bool(self._sources["cuda"]), bool(self._sources["ptx"])
        )
        base = self.screen_stack[0]
        base.query_one("#main").display = shown is not None
        tiny = base.query_one("#tiny", Static)
        tiny.display = shown is None
        if shown is None:
            have, need = f"{size.width}x{size.height}", f"{MINIMUM.width}x{MINIMUM.height}"
            tiny.update(f"terminal too small ({have}): qdbg needs {need}")
            return
        for name in PANES:
            base.query_one(f"#{name}").display = name in shown.panes
        base.query_one("#body").set_class(not shown.complete, "compact")
        for column, there in shown.columns.items():
            base.query_one(f"#{column}").display = there
        self._show_keys(shown, size.width)

    def _show_keys(self, shown: Arrangement, width: int) -> None:
        running = self.query_one(StatusLine).activity is not None and self.session is not None
        keys = ["ctrl+c interrupt"] if running else [
            "s step", "n next line", ". pass", "c continue", "b break", "t to cursor", "S back", "r restart"
        ]  # fmt: skip
        if not shown.complete:
            keys.insert(1, "tab panes")
        keys += ["z zoom", ": command", "/ find"]
        last = ["? help", "q quit"]
        while sum(len(key) + 2 for key in (*keys, *last)) > width:
            keys.pop()
        text = Text()
        for item in (*keys, *last):
            key, _, what = item.partition(" ")
            text += Text.assemble(" ", (key, "bold"), f" {what} ")
        self.query_one("#keys", Static).update(text)

    # -- what the runner says -------------------------------------------------------------------------

    def on_opening(self, message: runner.Opening) -> None:
        """Progress of the opening."""
        self.query_one(StatusLine).activity = Activity(message.text, message.fraction)

    def on_opened(self, message: runner.Opened) -> None:
        """The first stop: now both sources are known."""
        self.session = message.session
        self._sources = {"ptx": message.session.ptx_lines, "cuda": message.session.cuda_lines or ()}
        for name, lines in self._sources.items():
            self.query_one(f"#{name}", SourcePane).set_source(lines)
        on_cuda = self.query_one("#cuda").has_focus
        self.front = ("ptx", self.front[1])
        for line, cuda in self._early:
            self._session_note(lambda session, at=line, cu=cuda: session.toggle_breakpoint(at, cu))  # type: ignore[misc]
        self._settled(message.session.retouched(message.view), "")
        if on_cuda:  # hiding the pane with the focus drops the focus: set it once that is over
            self.call_after_refresh(self.query_one("#ptx").focus)

    def on_running(self, message: runner.Running) -> None:
        """Progress of a run."""
        seen = message.glimpse
        self.query_one(StatusLine).activity = Activity(
            f"running  pass {seen.passes:,}  PTX {seen.instructions:,}"
        )

    def on_stopped(self, message: runner.Stopped) -> None:
        """A job is done."""
        self._settled(message.view, message.note)

    def on_failed(self, message: runner.Failed) -> None:
        """Show the sentence; without a session it decides the exit status."""
        sentence, status = self.describe(message.error)
        if message.opening:
            self.status = status
            self.query_one(StatusLine).activity = Activity("", failed=True)
            self._say(f"{sentence}  (q leaves)", bad=True)
        else:
            self._settled(self.view, sentence, bad=True)

    def _settled(self, view: View | None, note: str, bad: bool = False) -> None:
        """Show a stop."""
        self.view = view
        if not self.runner.busy:
            self.query_one(StatusLine).activity = None
        if view is not None:
            self.status = {State.MISMATCH: 1, State.TRAPPED: 3}.get(view.state, 0)
        if view is not None and view.mismatch is not None:
            self._say(f"MISMATCH {view.mismatch}", bad=True)
        elif view is not None and view.trap is not None:
            self._say(f"TRAP {view.trap}", bad=True)
        else:
            self._say(note, bad)
        self._arrange()

    def _say(self, text: str, bad: bool = False) -> None:
        message = self.query_one("#message", Static)
        message.update(Text(text))
        message.set_class(bad, "bad")

    # -- commands -------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        """Carry a command out."""
        self.execute(name)

    def execute(self, line: str) -> None:
        """Carry a command line out; whatever is wrong with it becomes a sentence."""
        name, argument = parse(line)
        command = lookup(every_command(), name)
        if command is None:
            self._say(f"there is no command {name!r}: ? lists them", bad=True)
            return
        if not command.enabled(self.view):
            self._say(self._why_not(command), bad=True)
            return
        if command in APP_COMMANDS:
            self._note(partial(command.run, self, argument, self._idle()))
        elif self.session is None:
            self._say("the session is still being opened", bad=True)
        elif command.immediate:
            self._session_note(lambda session: command.run(session, argument, self._idle()))
        elif self.runner.submit(lambda session, control: command.run(session, argument, control)):
            self.query_one(StatusLine).activity = Activity(command.name)
            self._arrange()

    def _why_not(self, command: Command[object]) -> str:
        if self.view is None:
            return f"{command.name}: the session is still being opened"
        return f"{command.name}: the launch is over ({self.view.status}); r starts it again"

    def _note(self, run: Callable[[], str]) -> bool:
        """Run something short and show what it says; False if it failed."""
        try:
            note = run()
        except (CommandError, BreakpointError) as error:
            self._say(str(error), bad=True)
            return False
        if note:
            self._say(note)
        return True

    def _session_note(self, run: Callable[[Session], str]) -> None:
        """The same for a command that may run beside the machine; shows what it changed."""
        session = self.session
        if session is not None and self._note(partial(run, session)) and self.view is not None:
            self.view = session.retouched(self.view)

    @staticmethod
    def _idle() -> Control:
        return Control(lambda: False, lambda glimpse: None)

    def action_interrupt(self) -> None:
        """Ctrl+c: interrupt what runs, and nothing else."""
        if self.session is None or not self.runner.interrupt():
            self._say("nothing is running: q leaves the debugger")

    # -- what APP_COMMANDS call -------------------------------------------------------------------------

    def toggle_here(self) -> str:
        """A breakpoint on the cursor's line of the source pane that was used last."""
        pane = self._source_pane()
        self._toggle(pane.cursor, pane.language == "cuda")
        return ""

    def on_source_pane_toggle(self, message: SourcePane.Toggle) -> None:
        """A click in the gutter."""
        self._toggle(message.line, message.pane.language == "cuda")

    def _toggle(self, line: int, cuda: bool) -> None:
        if self.session is None:
            self._early.append((line, cuda))
            self._say(f"breakpoint on line {line} as soon as the session is open")
        else:
            self._session_note(lambda session: session.toggle_breakpoint(line, cuda))

    def run_to_cursor(self) -> str:
        """Run to the cursor's line."""
        pane = self._source_pane()
        self.execute(f"until {'cu:' if pane.language == 'cuda' else ''}{pane.cursor}")
        return ""

    def leave(self) -> None:
        """Quit with the right status."""
        self.runner.close()
        self.exit(self.status)

    def show_help(self) -> None:
        """The list of commands."""
        from qdbg.ui.help import HelpScreen

        self.push_screen(HelpScreen())

    def open_prompt(self, kind: str) -> None:
        """Type a command (":") or a search ("/")."""
        self.query_one("#prompt-name", Static).update("(qdbg) " if kind == ":" else "find   ")
        self.query_one(Prompt).open(kind)

    def start_command(self, name: str) -> None:
        """Open the prompt with a command that needs an argument."""
        self.open_prompt(":")
        prompt = self.query_one(Prompt)
        prompt.value = f"{name} "
        prompt.cursor_position = len(prompt.value)

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        """A line was typed."""
        if message.kind == "/":
            self._source_pane().focus()
            self.query_one("#prompt-name", Static).update("(qdbg) ")
            self._note(lambda: self.find(message.text))
        elif message.text:
            self.execute(message.text)

    def on_prompt_left(self) -> None:
        """Back to the panes."""
        self.query_one("#prompt-name", Static).update("(qdbg) ")
        self._source_pane().focus()

    def find(self, text: str) -> str:
        """Search the source pane that was used last."""
        found = self._source_pane().find(text)
        return "" if found or not text else f"no line holds {text!r}"

    def toggle_zoom(self) -> None:
        """The focused pane alone, or all again."""
        focused = self.focused.id if self.focused and self.focused.id in PANES else "ptx"
        self.zoomed = None if self.zoomed else focused

    def next_pane(self, name: str = "", by: int = 1) -> str:
        """Focus a pane, bringing it to the front where not all are shown."""
        there = [p for p in PANES if self._sources.get(p, True)]
        if name and name not in there:
            raise CommandError(f"there is no pane {name!r}: {', '.join(there)}")
        focused = self.focused.id if self.focused and self.focused.id in there else there[0]
        target = name or there[(there.index(str(focused)) + by) % len(there)]
        left, right = self.front
        self.front = (target, right) if target in ("ptx", "cuda") else (left, target)
        if self.zoomed:
            self.zoomed = target
        self.query_one(f"#{target}").focus()
        return ""

    def action_back_pane(self) -> None:
        """Shift+tab."""
        self.next_pane(by=-1)

    def next_format(self) -> str:
        """Another number format in registers and memory."""
        registers, memory = self.query_one(RegisterPane), self.query_one(MemoryPane)
        registers.format = memory.format = FORMATS[(FORMATS.index(registers.format) + 1) % len(FORMATS)]
        return f"numbers: {registers.format}"

    def toggle_reference(self) -> str:
        """The interpreter's values under every register, or only where they differ."""
        pane = self.query_one(RegisterPane)
        pane.with_interpreter = not pane.with_interpreter
        return (
            "the interpreter's values are shown"
            if pane.with_interpreter
            else "only differing values are shown"
        )

    def toggle_theme(self) -> str:
        """Light or dark."""
        self.theme = "textual-light" if self.theme != "textual-light" else "textual-dark"
        return ""

    def _source_pane(self) -> SourcePane:
        """The source pane that has the focus, else the one in front."""
        focused: Widget | None = self.focused
        return focused if isinstance(focused, SourcePane) else self.query_one(f"#{self.front[0]}", SourcePane)

    def _names(self) -> list[str]:
        """Registers and arrays, for completion."""
        view = self.view
        return [r.name for r in view.registers] + [m.name for m in view.memory] if view else []
