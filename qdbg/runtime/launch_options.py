"""What a person asks for on the command line, in a module of its own: the debugger's first picture
must not wait for numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchOptions:
    """What a person asks for where it differs from what the file says.

    number: which of the file's launches, from 1; grid, block: `X[,Y[,Z]]`; shared: bytes; arguments:
    (name, value as in a launch comment); opt: how hard the CUDA compiler optimises, 3, 1 or 0.
    """

    kernel: str | None = None
    number: int | None = None
    grid: str | None = None
    block: str | None = None
    shared: int | None = None
    arguments: tuple[tuple[str, str], ...] = ()
    opt: int = 3


@dataclass(frozen=True)
class StockOptions:
    """Where and how `stock` computes.  device: cpu, cuda or mps; dtype: float32 or bfloat16."""

    device: str = "cpu"
    dtype: str = "float32"


#: What `stock` does when nobody says otherwise.
STOCK = StockOptions()
