"""The debugger's commands: one table for keys, prompt, palette, scripts and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from qdbg.runtime.control import Control
from qdbg.runtime.view import State, View

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

Target = TypeVar("Target")


class CommandError(Exception):
    """A command that cannot be carried out; `str()` is one sentence."""


def always(view: View | None) -> bool:
    """Enabled even before the session is open."""
    return True


def opened(view: View | None) -> bool:
    """Enabled once the session is open."""
    return view is not None


def runnable(view: View | None) -> bool:
    """Enabled while the launch has not ended."""
    return view is not None and view.state not in (State.ENDED, State.TRAPPED)


@dataclass(frozen=True)
class Command(Generic[Target]):
    """A command of the debugger.

    run: carries it out on a session (or on the app, for its own commands) with the text behind the
    name, and returns a sentence for the message line, "" for none; immediate: it may run in the
    middle of a `continue`, since it touches nothing that the machine uses.
    """

    name: str
    usage: str
    help: str
    run: Callable[[Target, str, Control], str]
    keys: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    enabled: Callable[[View | None], bool] = opened
    immediate: bool = False

    @property
    def title(self) -> str:
        """Name and argument, e.g. `step [N]`."""
        return f"{self.name} {self.usage}".strip()


def parse(text: str) -> tuple[str, str]:
    """A command line as name and argument; a count may come first (`5s`), and a colon as in other editors."""
    text = text.strip().removeprefix(":")
    count = len(text) - len(text.lstrip("0123456789"))
    if 0 < count < len(text):
        return text[count:].strip(), text[:count]
    name, _, argument = text.partition(" ")
    return name, argument.strip()


def lookup(commands: Iterable[Command[Target]], name: str) -> Command[Target] | None:
    """The command of that name or alias, else the only one that starts with it."""
    table = list(commands)
    for command in table:
        if name == command.name or name in command.aliases:
            return command
    matches = [command for command in table if name and command.name.startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _count(argument: str) -> int:
    """A repeat count, 1 where none is given."""
    return whole_number(argument or "1", "a count", 1)


def whole_number(text: str, what: str, least: int = 0) -> int:
    """A whole number as a person writes it; what: "a line".  Raises CommandError."""
    if not text:
        raise CommandError(f"give {what}, a whole number")
    try:
        value = int(text, 0)
    except ValueError:
        raise CommandError(f"{text!r} is not {what}; give a whole number") from None
    if value < least:
        raise CommandError(f"{value} is not {what}; give {least} or more")
    return value


def _line(session: Session, argument: str) -> tuple[int, bool]:
    """A line argument as (line, is it CUDA): `24`, `cu:6`."""
    kind, colon, number = argument.rpartition(":")
    if colon and kind not in ("cu", "cuda", "ptx"):
        raise CommandError(f"{argument!r} is not a line; write 24 or cu:6")
    if not number:
        raise CommandError("give a line: 24 for PTX, cu:6 for CUDA")
    return whole_number(number, "a line", 1), kind in ("cu", "cuda")


def _step(session: Session, argument: str, control: Control) -> str:
    return session.step(_count(argument), control)


def _next(session: Session, argument: str, control: Control) -> str:
    return session.next_line(_count(argument), control)


def _pass(session: Session, argument: str, control: Control) -> str:
    return session.forwards(_count(argument), control)


def _continue(session: Session, argument: str, control: Control) -> str:
    return session.proceed(control)


def _until(session: Session, argument: str, control: Control) -> str:
    line, cuda = _line(session, argument)
    return session.run_to(line, cuda, control)


def _finish(session: Session, argument: str, control: Control) -> str:
    return session.finish_block(control)


def _reverse_step(session: Session, argument: str, control: Control) -> str:
    return session.reverse_step(_count(argument), control)


def _reverse_next(session: Session, argument: str, control: Control) -> str:
    return session.reverse_line(_count(argument), control)


def _reverse_pass(session: Session, argument: str, control: Control) -> str:
    return session.reverse_forwards(_count(argument), control)


def _reverse_continue(session: Session, argument: str, control: Control) -> str:
    return session.reverse_proceed(control)


def _back(session: Session, argument: str, control: Control) -> str:
    return session.back(_count(argument), control)


def _history(session: Session, argument: str, control: Control) -> str:
    return session.keep_history(whole_number(argument, "a number of megabytes") if argument else None)


def _restart(session: Session, argument: str, control: Control) -> str:
    return session.restart()


def _break(session: Session, argument: str, control: Control) -> str:
    if not argument:
        if (line := session.view().line) is None:
            raise CommandError("the machine stands on no PTX line; give a line: break 24 or break cu:6")
        argument = str(line)
    line, cuda = _line(session, argument)
    return session.toggle_breakpoint(line, cuda)


def _delete(session: Session, argument: str, control: Control) -> str:
    session.breakpoints.clear()
    return "no breakpoints"


def _lane(session: Session, argument: str, control: Control) -> str:
    return session.set_focus(whole_number(argument, "a lane"))


def _turn(by: int) -> Callable[[Session, str, Control], str]:
    def run(session: Session, argument: str, control: Control) -> str:
        return session.turn_focus(by)

    return run


def _turn_warp(by: int) -> Callable[[Session, str, Control], str]:
    def run(session: Session, argument: str, control: Control) -> str:
        return session.turn_warp(by)

    return run


def _print(session: Session, argument: str, control: Control) -> str:
    if not argument:
        raise CommandError("give a name: print %r1 for a register, print out for an array")
    return session.describe(argument)


_LEFT, _RIGHT = ("left_square_bracket",), ("right_square_bracket",)

SESSION_COMMANDS: tuple[Command[Session], ...] = (
    Command("step", "[N]", "one PTX instruction, for all its lanes", _step, ("s", "f11"), ("s",), runnable),
    Command("next", "[N]", "to the next CUDA line (else PTX line)", _next, ("n", "f10"), ("n",), runnable),
    Command("pass", "[N]", "one forward pass of the model", _pass, ("full_stop",), (".", "p"), runnable),
    Command("continue", "", "to a breakpoint, mismatch or end", _continue, ("c", "f5"), ("c",), runnable),
    Command("until", "LINE", "run to a line: 24, cu:6", _until, (), ("u",), runnable),
    Command("finish", "", "to the end of the block", _finish, ("f",), ("f",), runnable),
    Command("reverse-step", "[N]", "back a PTX instruction", _reverse_step, ("S",), ("S", "rs")),
    Command("reverse-next", "[N]", "back to a CUDA line's start", _reverse_next, ("N",), ("N", "rn")),
    Command("reverse-pass", "[N]", "back a forward pass", _reverse_pass, ("comma",), (",", "rp")),
    Command("reverse-continue", "", "back to a breakpoint", _reverse_continue, ("C",), ("C", "rc")),
    Command("back", "[N]", "to the stop before", _back, ("backspace",), ()),
    Command("history", "[MB]", "memory for going back, and its use", _history),
    Command("restart", "", "back to the start of the launch", _restart, ("r",), ("r", "run")),
    Command("break", "[LINE]", "set or remove a breakpoint: 24, cu:6", _break, (), ("b",), opened, True),
    Command("delete", "", "remove every breakpoint", _delete, (), ("d",), opened, True),
    Command("lane", "N", "focus a lane", _lane, (), ("l",), opened, True),
    Command("left", "", "focus the lane to the left", _turn(-1), ("left",), (), opened, True),
    Command("right", "", "focus the lane to the right", _turn(1), ("right",), (), opened, True),
    Command("warp-left", "", "the warp before", _turn_warp(-1), _LEFT, (), opened, True),
    Command("warp-right", "", "the warp behind", _turn_warp(1), _RIGHT, (), opened, True),
    Command("print", "NAME", "a register in every lane, or an array", _print),
)  # fmt: skip
