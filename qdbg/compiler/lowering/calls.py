"""Calls that inlining has left in a kernel (see `ptx.inline`): PTX ISA 9.7.12, "call"."""

from __future__ import annotations

from qdbg.compiler.lowering.types import Unsupported
from qdbg.compiler.machine.isa import Trap
from qdbg.compiler.mangling import display_name
from qdbg.compiler.ptx.cfg_effects import reads, writes
from qdbg.compiler.ptx.inline import Call
from qdbg.compiler.ptx.ir import Function, Instruction, Module, Symbol


def remaining_call(module: Module, kernel: Function, i: Instruction) -> Trap | None:
    """The trap that a call is on the machine; None if it does nothing there.

    `vprintf` only writes text, which the interpreter beside the machine reports; the machine has no result
    for it.  Raises Unsupported for a function that the file merely declares, and for a result of `vprintf`
    that something depends on.
    """
    callee = Call.of(i).callee
    defined = {f.name for f in module.functions if "external" not in f.directives}
    if not isinstance(callee, Symbol) or callee.name in defined:
        return Trap.RECURSION
    if callee.name == "__assertfail":
        return Trap.ASSERT
    if callee.name != "vprintf":
        raise Unsupported(f"the function `{display_name(callee.name)}`")
    if _needed(kernel).intersection(writes(i)):
        raise Unsupported("the result of `printf`")
    return None


def _needed(kernel: Function) -> set[str]:
    """The registers that something other than moves to unneeded registers reads."""
    needed: set[str] = set()
    moves = [i for i in kernel.body if i.opcode == "mov"]
    for i in kernel.body:
        if i.opcode != "mov":
            needed.update(reads(i))
    before = -1
    while len(needed) != before:
        before = len(needed)
        for i in moves:
            if needed.intersection(writes(i)):
                needed.update(reads(i))
    return needed
