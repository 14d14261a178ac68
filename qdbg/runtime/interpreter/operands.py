"""Operands decoded once into closures that read and write a warp's registers.

Registers hold bit patterns in uint64, zero above their width.  A read gives the lanes' values in the
numpy type of the PTX type that the instruction names; a write keeps inactive lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import (
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
)
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array
from qdbg.runtime.interpreter.specials import SUPPORTED
from qdbg.runtime.launch import BoundLaunch

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

Read = Callable[["Warp"], Array]
Write = Callable[["Warp", Array, Array], None]
_MASK64 = (1 << 64) - 1


class Names:
    """What the symbols of a kernel stand for: addresses of variables and offsets of parameters."""

    def __init__(self, kernel: Function, bound: BoundLaunch):
        self.kernel, self.bound = kernel, bound
        self.addresses = {**bound.symbols, **bound.parameter_offsets}
        self.local_bytes = 0
        for variable in kernel.variables:
            if variable.space == "local":
                start = -(-self.local_bytes // max(variable.align, 1)) * max(variable.align, 1)
                self.addresses[variable.name] = start
                self.local_bytes = start + variable.size


class Decoder:
    """Decodes the operands of one instruction; collects the registers that it writes.

    Its methods raise `Refusal` saying what is not supported.
    """

    def __init__(self, names: Names, lanes: int, instruction: Instruction):
        self.names, self.lanes, self.instruction = names, lanes, instruction
        self.written: list[str] = []

    def read(self, operand: Operand | None, type_name: str) -> Read:
        """A reader of an operand as `type_name`."""
        dtype = _dtype(type_name)
        match operand:
            case Register(name, negated):
                self._check_file(name, type_name)
                return _read_register(name, dtype, negated)
            case Special(name):
                if name not in SUPPORTED:
                    raise Refusal(f"reads {name}, which is not supported yet")
                return lambda warp: warp.special(name).astype(dtype)
            case Immediate():
                return self._constant(_immediate_bits(operand, type_name), type_name)
            case Symbol(name, offset):
                return self._constant(self.symbol(name) + offset, type_name)
        raise Refusal("has an operand that is not supported here")

    def write(self, operand: Operand | None, type_name: str) -> Write:
        """A writer of `type_name` values; `_` discards them."""
        if operand is None or operand == Pair(None, None):
            return lambda warp, active, value: None
        if not isinstance(operand, Register):
            raise Refusal("has a destination that is not a register")
        name, bits = operand.name, TYPE_BITS[type_name]
        self._check_file(name, type_name)
        self.written.append(name)
        width = TYPE_BITS[self.names.kernel.registers[name]]
        if width < bits:
            raise Refusal(f"writes {bits} bits to {name}, which has {width}")
        if _dtype(type_name).kind == "i" and width > bits:
            mask = np.uint64((1 << width) - 1)  # a narrow signed value fills the register with its sign

            def write_extended(warp: Warp, active: Array, value: Array) -> None:
                np.copyto(warp.registers[name], value.astype(np.int64).view(np.uint64) & mask, where=active)

            return write_extended
        if type_name == "pred":

            def write_predicate(warp: Warp, active: Array, value: Array) -> None:
                np.copyto(warp.registers[name], value, where=active)

            return write_predicate
        raw = np.dtype(f"<u{bits // 8}")

        def write(warp: Warp, active: Array, value: Array) -> None:
            np.copyto(warp.registers[name], value.view(raw), where=active)

        return write

    def address(self, operand: Operand) -> Read:
        """A reader of `[base + offset]` as uint64; a 32-bit base wraps at 32 bits."""
        if not isinstance(operand, Address):
            raise Refusal("needs an address in brackets")
        offset = operand.offset
        match operand.base:
            case None:
                return self._constant(offset, "u64")
            case Symbol(name, inner):
                return self._constant(self.symbol(name) + inner + offset, "u64")
            case Register(name):
                if offset == 0:
                    return lambda warp: warp.registers[name]
                step = np.uint64(offset & _MASK64)
                if TYPE_BITS[self.names.kernel.registers[name]] == 64:
                    return lambda warp: warp.registers[name] + step
                return lambda warp: warp.registers[name] + step & np.uint64(0xFFFFFFFF)

    def symbol(self, name: str) -> int:
        """The address of a variable in its space."""
        try:
            return self.names.addresses[name]
        except KeyError:
            raise Refusal(f"takes the address of {name}, which is not supported yet") from None

    def _check_file(self, name: str, type_name: str) -> None:
        if (self.names.kernel.registers[name] == "pred") != (type_name == "pred"):
            raise Refusal(f"uses {name}, a .{self.names.kernel.registers[name]}, as a .{type_name}")

    def _constant(self, bits: int, type_name: str) -> Read:
        dtype = _dtype(type_name)
        if dtype.kind == "b":
            values: Array = np.full(self.lanes, bool(bits))
        else:
            raw = f"<u{dtype.itemsize}"
            values = np.full(self.lanes, bits & (1 << 8 * dtype.itemsize) - 1, dtype=raw).view(dtype)
        values.flags.writeable = False
        return lambda warp: values


def _dtype(type_name: str) -> np.dtype[np.generic]:
    try:
        return DTYPES[type_name]
    except KeyError:
        raise Refusal(f"works on .{type_name}, which is not supported yet") from None


def _read_register(name: str, dtype: np.dtype[np.generic], negated: bool) -> Read:
    if dtype.kind == "b":
        if negated:
            return lambda warp: warp.registers[name] == 0
        return lambda warp: warp.registers[name] != 0
    if dtype.kind == "f":
        raw = np.dtype(f"<u{dtype.itemsize}")
        return lambda warp: warp.registers[name].astype(raw).view(dtype)
    if dtype == np.uint64:
        return lambda warp: warp.registers[name]
    return lambda warp: warp.registers[name].astype(dtype)


def _immediate_bits(operand: Immediate, type_name: str) -> int:
    """The bits of a literal in an instruction's type (PTX ISA 4.5, "Constants")."""
    if type_name == "f32" and operand.kind == "f64bits":
        wide = np.array([operand.value], dtype=np.uint64).view(np.float64)
        return int(wide.astype(np.float32).view(np.uint32)[0])
    if type_name in ("f32", "f64") and operand.kind == "int":
        raise Refusal("has an integer where a float is needed")
    return operand.value
