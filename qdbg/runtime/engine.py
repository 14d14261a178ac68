"""What an engine is: something that runs a launch of the machine one forward pass at a time.

A *pass* feeds one token and yields the next.  An engine is driven by a prompt and by its own
tokens; nobody else picks one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qdbg.runtime.state import MachineState

#: Called with (done, total) during long work; may raise `Interrupted`.
Progress = Callable[[int, int], None]


class Interrupted(Exception):
    """The user interrupted long work."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A proposed trace that the model would not have generated: at `index` it emits `found`."""

    index: int
    expected: int
    found: int


class Engine(Protocol):
    """Runs one launch.  `name` is as on the command line."""

    name: str

    @property
    def passes(self) -> int:
        """Forward passes made since the launch began, the prefill counting as one."""
        ...

    def prefill(self, ids: Sequence[int], progress: Progress | None = None) -> int:
        """Forget everything, feed the prompt, return the first generated token.

        This is pass 1: it feeds the prompt's last token together with the others.
        """
        ...

    def step(self) -> int:
        """One forward pass: feed the newest token, return the next one."""
        ...

    def margin(self) -> float | None:
        """The newest token's logit less the runner-up's, if the engine has logits."""
        ...

    def snapshot(self) -> Any:
        """An opaque copy of everything a launch changes."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot, which stays valid."""
        ...

    def state(self) -> MachineState:
        """The machine's state decoded, after the newest pass.  Reading changes nothing."""
        ...
