"""What came of verifying a launch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from qdbg.runtime.view import Block, Mismatch, TrapReport


@dataclass(frozen=True)
class WrongToken:
    """The first token that the model would not have generated, and whose work it reports.

    number: the forward pass; block: blockIdx; warp and lane: None for the whole block; line, text: of the PTX
    instruction, None for the machine's own bookkeeping; place: file and line for a person.
    """

    number: int
    block: Block
    warp: int | None
    lane: int | None
    line: int | None
    text: str | None
    place: str
    expected: str
    found: str

    def __str__(self) -> str:
        who = "all warps" if self.lane is None else f"warp {self.warp} lane {self.lane}"
        at = f" at `{self.text}` (PTX line {self.line})" if self.line is not None else ""
        return (
            f"{self.place}: pass {self.number}, block {self.block}, {who}{at}: "
            f"the model says {self.found}, correct is {self.expected}"
        )


@dataclass(frozen=True)
class Verified:
    """What came of a launch.

    tokens: generated, end token included; kinds: how many of each class; wrong: the first token that
    the model gets wrong (where there is one, the tokens behind it do not count); mismatch: between
    interpreter and emulator; expected: the file's expectations are met, None where it states none;
    endless: the file says that the launch does not end; missing: what the launch needs beyond the machine,
    so that only the interpreter ran it; seconds: in all, check_seconds: the model's part; status: an exit
    status; error: what is wrong, in one sentence.
    """

    path: str
    launch: int | None
    kernel: str | None = None
    prompt_tokens: int = 0
    ptx_instructions: int = 0
    tokens: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    wrong: WrongToken | None = None
    mismatch: Mismatch | None = None
    expected: bool | None = None
    trap: TrapReport | None = None
    endless: bool = False
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    check_seconds: float = 0.0
    status: int = 0
    error: str | None = None

    @property
    def exact(self) -> bool | None:
        """Emulator, interpreter and model agree; None where the launch could not be run."""
        if self.wrong is not None or self.mismatch is not None:
            return False
        return True if self.tokens else None

    @property
    def read(self) -> int:
        """Tokens that the model has read."""
        return self.prompt_tokens + self.tokens

    def as_json(self) -> dict[str, Any]:
        """An entry of the `kernels` list of `qdbg verify --json`."""
        fields = asdict(self)
        return {**fields, "wrong_tokens": int(self.wrong is not None), "exact": self.exact}
