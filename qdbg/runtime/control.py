"""How a long operation hears of an interrupt and says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Glimpse:
    """Where a running machine is."""

    passes: int
    instructions: int


@dataclass(frozen=True)
class Control:
    """Both are called every pass."""

    cancelled: Callable[[], bool] = lambda: False
    progress: Callable[[Glimpse], None] = lambda glimpse: None


#: Nobody interrupts and nobody watches.
ALONE = Control()
