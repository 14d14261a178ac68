"""lop3 (PTX ISA 9.7.8, "lop3"): any logic function of three operands, by its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import Immediate, Instruction, Pair
from qdbg.runtime.interpreter.data import Action, builder
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import Array, check
from qdbg.runtime.interpreter.operands import Decoder

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp


@builder("lop3")
def _lop3(decoder: Decoder) -> Action:
    """d = f(a, b, c); with `.or` or `.and` also p = (d != 0) op q, and d may be `_`."""
    instruction = decoder.instruction
    if instruction.types != ("b32",):
        raise Refusal("is not supported: lop3 takes the type .b32")
    check(instruction, ("or|and?",))
    destination, *sources = instruction.operands
    pair = destination if isinstance(destination, Pair) else None
    combines = instruction.has("or", "and")
    if combines != (pair is not None) or len(sources) != 4 + combines:
        raise Refusal("takes d, a, b, c, table; or with .or or .and d|p, a, b, c, table, q")
    terms = _terms(instruction)
    reads = [decoder.read(source, "b32") for source in sources[:3]]
    write = decoder.write(pair.first if pair else destination, "b32")
    write_p = decoder.write(pair.second, "pred") if pair else None
    read_q = decoder.read(sources[4], "pred") if pair else None
    combine = np.logical_or if instruction.has("or") else np.logical_and

    def action(warp: Warp, active: Array) -> None:
        a, b, c = (read(warp) for read in reads)
        result = np.zeros_like(a)
        for index in terms:  # a is the most significant bit of the index into the table
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        p = combine(result != 0, read_q(warp)) if read_q else None
        write(warp, active, result)
        if write_p is not None:
            write_p(warp, active, p)

    return action


def _terms(instruction: Instruction) -> list[int]:
    """The values of (a, b, c), as three bits, for which the function is 1."""
    table = instruction.operands[4]
    if not isinstance(table, Immediate) or not 0 <= table.value < 256:
        raise Refusal("needs a table between 0 and 255")
    return [index for index in range(8) if table.value >> index & 1]
