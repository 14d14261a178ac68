"""The debugger's screen.

The app opens at once with the source; a `Runner` opens the session in its own thread and reports.
Each stop arrives as one frozen `View`, to which every pane is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.reactive import reactive
from textual.widgets import Static

from qdbg.runtime.breakpoints import BreakpointError
from qdbg.runtime.commands import Command, CommandError, lookup, parse
from qdbg.runtime.control import ALONE
from qdbg.runtime.view import State, View
from qdbg.ui import runner
from qdbg.ui.commands import APP_COMMANDS, OPENERS, every_command
from qdbg.ui.desk import Desk
from qdbg.ui.header import Activity, KeyLine, StatusLine
from qdbg.ui.layout import MINIMUM
from qdbg.ui.message import MessageLine
from qdbg.ui.prompt import CommandLine, Prompt
from qdbg.ui.source import SourcePane

if TYPE_CHECKING:
    from textual.command import Provider

    from qdbg.runtime.session import Session

#: Seconds after which a command that runs is announced.
BLINK = 0.1
#: Says in one sentence what an error means, and the exit status that it stands for.
Describe = Callable[[Exception], tuple[str, int]]


def _palette() -> type[Provider]:
    from qdbg.ui.palette import DebuggerCommands

    return DebuggerCommands


class DebuggerApp(App[int]):
    """Debugs one launch; the return value is the exit status."""

    CSS_PATH = "debugger.tcss"
    COMMANDS = {_palette}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+q", "do('quit')", show=False, priority=True),
        *(
            Binding(key, f"do('{command.name}')", command.help, show=False, priority=command.name in OPENERS)
            for command in every_command()
            for key in command.keys
        ),
    ]

    view: reactive[View | None] = reactive(None, repaint=False)
    """The newest stop; None until the session is open."""

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
        self.error: Exception | None = None  #: what kept the session from opening, or ended the app
        self.desk: Desk = Desk({"ptx": (), "cuda": (), language: lines}, id="body")
        self._early: list[tuple[int, bool]] = []  # breakpoints asked for before the session was open
        self._shape: Size | None = None
        self._complete = False  # every pane is on the screen
        self._job = ""  # the command that runs, or ran last

    # -- widgets --------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Status, panes, message, prompt, keys."""
        with Vertical(id="main"):
            yield StatusLine(self.title or "", id="status").data_bind(DebuggerApp.view)
            yield self.desk.data_bind(DebuggerApp.view)
            yield MessageLine(id="message")
            yield CommandLine(
                [c.name for c in every_command()],
                lambda: self.desk.names,
                lambda: self.desk.source,
                id="command",
            )
            yield KeyLine(id="keys")
        yield Static(id="tiny")

    def on_mount(self) -> None:
        """Arrange, then open the session once the first picture is on the screen."""
        self.desk.source.focus()
        self.arrange()
        self._busy("opening")
        self.call_after_refresh(self.runner.start)

    def on_resize(self, event: events.Resize) -> None:
        """Another size may hold other panes."""
        self._shape = event.size  # the app's own size is still the old one
        self.arrange()

    def arrange(self) -> None:
        """Show what fits the terminal."""
        size = self._shape or self.size
        shown = self.desk.lay_out(size)
        base = self.screen_stack[0]
        base.query_one("#main").display = shown is not None
        tiny = base.query_one("#tiny", Static)
        tiny.display = shown is None
        have, need = f"{size.width}x{size.height}", f"{MINIMUM.width}x{MINIMUM.height}"
        tiny.update(f"terminal too small ({have}): qdbg needs {need}")
        if shown is not None:
            self._complete = shown.complete
            self._show_keys()

    def _show_keys(self) -> None:
        """The keys that matter now."""
        running = self.session is not None and self.query_one(StatusLine).activity is not None
        width = (self._shape or self.size).width
        self.query_one(KeyLine).show(width, self._complete, running)

    def _busy(self, text: str, fraction: float | None = None) -> None:
        self.query_one(StatusLine).activity = Activity(text, fraction)

    def _say(self, text: str, bad: bool = False) -> None:
        """Show a sentence; "" shows what is wrong here, if anything is."""
        if not text:
            text, bad = self._trouble(), True
        self.query_one(MessageLine).say(text, bad)

    def _trouble(self) -> str:
        """What went wrong, whatever was said since; "" for nothing."""
        if self.error is not None:
            return f"{self.describe(self.error)[0]}  (q leaves)"
        if self.view is not None and self.view.mismatch is not None:
            return f"MISMATCH {self.view.mismatch}"
        if self.view is not None and self.view.trap is not None:
            return f"TRAP {self.view.trap}"
        return ""

    # -- what the runner says -------------------------------------------------------------------------

    def on_opening(self, message: runner.Opening) -> None:
        """Progress of the opening."""
        self._busy(message.text, message.fraction)

    def on_opened(self, message: runner.Opened) -> None:
        """The first stop: now both sources are known."""
        session = self.session = message.session
        self.desk.set_sources({"ptx": session.ptx_lines, "cuda": session.cuda_lines or ()})
        self._settled(message.view, "")
        self.arrange()
        for line, cuda in self._early:
            self.toggle(line, cuda)
        if isinstance(self.focused, SourcePane):
            # Hiding the pane with the focus drops the focus: set it once that is over.
            self.call_after_refresh(self.query_one("#ptx").focus)

    def on_running(self, message: runner.Running) -> None:
        """Progress of a run."""
        seen = message.glimpse
        if self.runner.busy and self.query_one(StatusLine).activity is not None:
            self._busy(f"running  pass {seen.passes:,}  PTX {seen.instructions:,}")

    def on_stopped(self, message: runner.Stopped) -> None:
        """A job is done."""
        self._settled(message.view, message.note)

    def on_failed(self, message: runner.Failed) -> None:
        """Show the sentence; without a session it decides the exit status."""
        sentence, status = self.describe(message.error)
        if message.opening:
            self.status, self.error = status, message.error
            self.query_one(StatusLine).activity = Activity("", failed=True)
            self._say("")
        else:
            self._settled(self.view, sentence, bad=True)

    def _settled(self, view: View | None, note: str, bad: bool = False) -> None:
        """Show a stop."""
        assert self.session is not None
        self.view = view = self.session.retouched(view) if view is not None else None
        if not self.runner.busy:
            self.query_one(StatusLine).activity = None
        if view is not None:
            self.status = {State.MISMATCH: 1, State.TRAPPED: 3}.get(
                view.state, int(view.mismatch is not None)
            )
        self._say(note, bad)
        self._show_keys()

    def _handle_exception(self, error: Exception) -> None:
        """Whatever nobody expected ends the app; `run_debugger` then says it in a sentence."""
        self.error = self.error or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End without the traceback that textual would print."""
        self.runner.close()
        self._close_messages_no_wait()

    # -- commands -------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        """Carry a command out."""
        self.execute(name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means a command: an opener's does not where it is text or another screen's."""
        opener = action == "do" and parameters[0] in OPENERS
        return not (opener and (isinstance(self.focused, Prompt) or len(self.screen_stack) > 1))

    def execute(self, line: str) -> None:
        """Carry a command line out; whatever is wrong with it becomes a sentence."""
        name, argument = parse(line)
        command = lookup(every_command(), name)
        if self.query_one(MessageLine).has_class("bad"):
            self._say("")  # what was refused before is done with
        if command is None:
            self._say(f"there is no command {name!r}: ? lists them", bad=True)
        elif not command.enabled(self.view):
            self._say(self._why_not(command), bad=True)
        elif command in APP_COMMANDS:
            self._attempt(lambda: command.run(self, argument, ALONE))
            self.arrange()
        elif command.immediate:
            self._beside(lambda session: command.run(session, argument, ALONE))
        elif self.runner.submit(lambda session, control: command.run(session, argument, control)):
            self._say("")
            # What is over in the blink of an eye is not announced: a key held down must not flicker.
            self._job = command.name
            self.set_timer(BLINK, self._still_busy)

    def _still_busy(self) -> None:
        """What was begun takes a while: say so."""
        if self.runner.busy and self.query_one(StatusLine).activity is None:
            self._busy(self._job)
            self._show_keys()

    def _why_not(self, command: Command[object]) -> str:
        if self.view is None:
            return (
                self._trouble()
                or f"{command.name}: the launch is being opened, wait until it is at its start"
            )
        return f"{command.name}: the launch is over ({self.view.status}); r starts it again"

    def _attempt(self, run: Callable[[], str]) -> bool:
        """Run something short and show what it says; False if it failed."""
        try:
            note = run()
        except (CommandError, BreakpointError) as error:
            self._say(str(error), bad=True)
            return False
        if note:
            self._say(note)
        return True

    def _beside(self, run: Callable[[Session], str]) -> None:
        """The same for a command that may run beside the machine; shows what it changed."""
        session = self.session
        if session is not None and self._attempt(partial(run, session)) and self.view is not None:
            self.view = session.retouched(self.view)

    def action_interrupt(self) -> None:
        """Ctrl+c: interrupt what runs, and nothing else."""
        if self.session is None or not self.runner.interrupt():
            self._say("nothing is running: q leaves the debugger")

    # -- what APP_COMMANDS call -------------------------------------------------------------------------

    def on_source_pane_toggle(self, message: SourcePane.Toggle) -> None:
        """A click in the gutter."""
        self.toggle(message.line, message.pane.language == "cuda")

    def toggle(self, line: int, cuda: bool) -> str:
        """Set or remove a breakpoint, as soon as the session is open."""
        if self.session is None:
            self._early.append((line, cuda))
            return f"breakpoint on line {line} as soon as the session is open"
        self._beside(lambda session: session.toggle_breakpoint(line, cuda))
        return ""

    def leave(self) -> str:
        """Quit with the right status."""
        self.runner.close()
        self.exit(self.status)
        return ""

    def action_command_palette(self) -> None:
        """Ctrl+p."""
        from qdbg.ui.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def show_help(self) -> str:
        """The list of commands."""
        from qdbg.ui.help import HelpScreen

        self.push_screen(HelpScreen())
        return ""

    def open_prompt(self, kind: str, text: str = "") -> str:
        """Type a command (":") or a search ("/")."""
        self.query_one(CommandLine).open(kind, text)
        return ""

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        """A line was typed."""
        if message.kind == "/":
            self._attempt(lambda: self.desk.find(message.text))
        elif message.text:
            self.execute(message.text)

    def action_back_pane(self) -> None:
        """Shift+tab in a pane."""
        self.desk.next_pane(by=-1)
        self.arrange()

    def toggle_theme(self) -> str:
        """Light or dark."""
        self.theme = "textual-light" if self.theme != "textual-light" else "textual-dark"
        return ""
