"""A launch run to its end without anybody watching: the object that `qdbg run --json` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.machine.config import MEMORY_BASE
from qdbg.runtime.control import ALONE, Control
from qdbg.runtime.engine import Interrupted
from qdbg.runtime.interpreter import Fault, Finding, Interpreter, LimitReached, Unsupported
from qdbg.runtime.view import Mismatch, State, TrapReport

if TYPE_CHECKING:
    from qdbg.runtime.launch import BoundLaunch
    from qdbg.runtime.session import Session

#: The canonical NaN of each float type, which prints as "nan"; others print with their bits.
_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
#: PTX instructions that the interpreter may issue alone for each that it issued in step with the machine,
#: where calls are expanded.
_LONGER = 10


class PassLimit(Exception):
    """The launch did not end within the pass limit; `str()` is one sentence."""

    def __init__(self, limit: int):
        super().__init__(
            f"the launch did not end within {limit:,} forward passes: an endless loop? "
            "raise the limit with --max-passes if not"
        )


@dataclass(frozen=True)
class Outcome:
    """How a launch ended.

    exact: machine and interpreter agreed everywhere; expected: the file's expectations are met, None
    where it states none or the kernel trapped; outputs: as `outputs` gives them; ptx_instructions and
    warnings: what the interpreter has counted and found when it ran `alone`; where the machine stopped on the
    way, the instructions up to there.
    """

    exact: bool
    mismatch: Mismatch | None
    expected: bool | None
    trap: TrapReport | None
    outputs: dict[str, Any]
    tokens: int
    ptx_instructions: int
    warnings: tuple[Finding, ...]
    seconds: float

    @property
    def status(self) -> int:
        """The exit status: 0 exact and as expected, 1 a mismatch, 3 trapped."""
        if not self.exact or self.expected is False:
            return 1
        return 3 if self.trap is not None else 0


def run(session: Session, control: Control = ALONE) -> Outcome:
    """Run a started session to the end, the first mismatch or a trap.

    Raises PassLimit, and Interrupted when `control` says that the user cancelled.
    """
    start = time.perf_counter()
    session.breakpoints.clear()
    session.proceed(control)
    if session.state is State.STOPPED and control.cancelled():
        raise Interrupted("interrupted")
    return conclude(session, time.perf_counter() - start)


def conclude(session: Session, seconds: float) -> Outcome:
    """How a session ended whose engine still stands there.  Raises PassLimit if it did not end."""
    if session.state is State.STOPPED:
        raise PassLimit(session.pass_limit)
    memory = session.engine.state().memory
    interpreter = alone(session)
    through = session.state is State.ENDED and session.mismatch is None
    return Outcome(
        exact=session.mismatch is None,
        mismatch=session.mismatch,
        expected=as_expected(session.bound, memory) if session.state is State.ENDED else None,
        trap=session.trap(),
        outputs=outputs(session.bound, memory),
        tokens=len(session.tokens),
        ptx_instructions=interpreter.instructions if through else session.lockstep.issued,
        warnings=interpreter.findings,
        seconds=seconds,
    )


def alone(session: Session) -> Interpreter:
    """The interpreter after it ran the launch alone, up to a fault or to a limit.

    The limit is the session's; but passes are no measure of the instructions that cost none, and so where
    the machine came further the interpreter may as well.
    """
    interpreter = reference(session)
    with suppress(Fault, Unsupported, LimitReached):
        interpreter.run(max(session.pass_limit, _LONGER * session.lockstep.issued))
    return interpreter


def reference(session: Session) -> Interpreter:
    """The interpreter, about to run the launch alone.

    In step with a machine it regroups lanes as that machine does, and runs a kernel whose calls are
    expanded; what it counts alone is the launch's own.
    """
    from qdbg.runtime.launch import bind

    return Interpreter(session.source.ptx, bind(session.source, session.bound.launch))


def report(session: Session, outcome: Outcome) -> dict[str, Any]:
    """The `run --json` object, all but what only the command knows: kernel's name and checkpoint."""
    return {
        "engine": session.engine.name,
        "grid": list(session.bound.grid),
        "block": list(session.bound.block),
        "lanes": session.config.warp,
        "threads": session.config.lanes,
        "prompt_tokens": len(session.prompt),
        "tokens": outcome.tokens,
        "passes": session.engine.passes,
        "ptx_instructions": outcome.ptx_instructions,
        "seconds": round(outcome.seconds, 6),
        "exact": outcome.exact,
        "mismatches": [asdict(outcome.mismatch)] if outcome.mismatch else [],
        "expected": outcome.expected,
        "trap": asdict(outcome.trap) if outcome.trap else None,
        "warnings": [asdict(finding) for finding in outcome.warnings],
        "outputs": outcome.outputs,
    }


def array(memory: NDArray[np.uint32], address: int, like: NDArray[np.generic]) -> NDArray[np.generic]:
    """The array at a byte address, with the type and length of `like`; memory: words from MEMORY_BASE on."""
    start = address - MEMORY_BASE
    return np.frombuffer(memory.tobytes()[start : start + like.nbytes], like.dtype)


def as_expected(bound: BoundLaunch, memory: NDArray[np.uint32]) -> bool | None:
    """Whether the file's expectations are met; None where it states none."""
    if not bound.expectations:
        return None
    places = {a.name: a for a in bound.allocations}
    return all(
        len(e.mismatches(array(memory, places[e.name].address, places[e.name].data))) == 0
        for e in bound.expectations
    )


def outputs(bound: BoundLaunch, memory: NDArray[np.uint32]) -> dict[str, Any]:
    """The arrays that a launch produced, each as {"dtype", "shape", "data"}.

    Pure inputs are left out: arrays that were given values, still hold them, and of which nothing is
    expected.  memory: words from MEMORY_BASE on.
    """
    expected = {e.name for e in bound.expectations}
    found = {}
    for allocation in bound.allocations:
        values = array(memory, allocation.address, allocation.data)
        before, after = allocation.data.tobytes(), values.tobytes()
        if allocation.name in expected or before != after or not any(before):
            found[allocation.name] = encode(values)
    return found


def encode(values: NDArray[np.generic]) -> dict[str, Any]:
    """An array as JSON; floats read back to the same bits, NaN and infinities are strings."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    data: list[Any] = values.tolist()
    if kind == "f":
        bits = values.view(f"<u{size}").tolist()
        data = [_float(v, b, size) for v, b in zip(values, bits, strict=True)]
    return {"dtype": f"{kind}{8 * size}", "shape": list(values.shape), "data": data}


def decode(encoded: Mapping[str, Any]) -> NDArray[np.generic]:
    """The array that `encode` was given, bit for bit."""
    size = int(encoded["dtype"][1:]) // 8
    dtype = np.dtype(f"<{encoded['dtype'][0]}{size}")
    if dtype.kind != "f":
        return np.array(encoded["data"], dtype)
    bits = [_bits(value, dtype) for value in encoded["data"]]
    return np.array(bits, f"<u{size}").view(dtype)


def _float(value: Any, bits: int, size: int) -> float | str:
    if np.isnan(value):
        return "nan" if bits == _NAN[size] else f"nan(0x{bits:x})"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(str(value))  # the shortest decimal that reads back to the same bits


def _bits(value: float | str, dtype: np.dtype[Any]) -> int:
    if isinstance(value, str) and value.startswith("nan"):
        return int(value[4:-1], 16) if value != "nan" else _NAN[dtype.itemsize]
    return int(np.array([float(value)], dtype).view(f"<u{dtype.itemsize}")[0])
