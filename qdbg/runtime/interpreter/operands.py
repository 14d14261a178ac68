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
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Space,
    Special,
    Symbol,
)
from qdbg.runtime.interpreter.errors import Refusal
from qdbg.runtime.interpreter.forms import DTYPES, Array
from qdbg.runtime.interpreter.names import Names
from qdbg.runtime.interpreter.specials import SUPPORTED

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.warp import Warp

Read = Callable[["Warp"], Array]
Write = Callable[["Warp", Array, Array], None]
_MASK64 = (1 << 64) - 1
#: Instructions whose registers may be wider than their types, and calls, which go by the callee's types.
_RELAXED = ("ld", "ldu", "st", "cvt", "call")


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
                return _read_register(self.names.key(name), dtype, negated)
            case Special(name):
                if name not in SUPPORTED:
                    raise Refusal(f"reads {name}, which is not supported yet")
                return lambda warp: warp.special(name).astype(dtype)
            case Immediate():
                return self._constant(_immediate_bits(operand, type_name), type_name)
            case Symbol(name, offset):
                return self._symbol(name, offset, type_name)
        raise Refusal("has an operand that is not supported here")

    def write(self, operand: Operand | None, type_name: str) -> Write:
        """A writer of `type_name` values; `_` discards them."""
        if operand is None or operand == Pair(None, None):
            return lambda warp, active, value: None
        if not isinstance(operand, Register):
            raise Refusal("has a destination that is not a register")
        bits, width = TYPE_BITS[type_name], self.width(operand.name)
        self._check_file(operand.name, type_name)
        name = self.names.key(operand.name)
        self.written.append(name)
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
                return self._symbol(name, inner + offset, "u64")
            case Register(name):
                if self.names.registers[name][0] == "f":
                    raise Refusal(f"has its address in {name}, a .{self.names.registers[name]}")
                key, step = self.names.key(name), np.uint64(offset & _MASK64)
                if offset == 0:
                    return lambda warp: warp.registers[key]
                if self.width(name) == 64:
                    return lambda warp: warp.registers[key] + step
                return lambda warp: warp.registers[key] + step & np.uint64(0xFFFFFFFF)

    def space(self, named: Space, operand: Operand) -> Space:
        """The state space that an access to `[operand]` with the qualifier `named` goes to.

        A variable is accessed where it lives: `ld.param` of a device function's parameter is an access to
        its frame (PTX ISA 5.1.6), and so is one through a register there, as such addresses are local.
        """
        base = operand.base if isinstance(operand, Address) else None
        if isinstance(base, Symbol) and named in ("generic", "param"):
            return self.names.spaces.get(base.name, named)
        if named == "param" and not self.names.function.is_entry and not self.instruction.has("param::entry"):
            return "local"
        return named

    def width(self, register: str) -> int:
        """Bits of a register of the function."""
        return TYPE_BITS[self.names.registers[register]]

    def _symbol(self, name: str, offset: int, type_name: str) -> Read:
        """The address of a variable or function in its space."""
        if (constant := self.names.constants.get(name)) is not None:
            return self._constant(constant + offset, type_name)
        place = self.names.frame.get(name)
        if place is None:
            raise Refusal(f"takes the address of {name}, which is not supported yet")
        if self.names.function.is_entry:  # its frame begins at 0
            return self._constant(place + offset, type_name)
        dtype, step = _dtype(type_name), np.uint64((place + offset) & _MASK64)
        return lambda warp: (warp.stack.frame + step).astype(dtype)

    def _check_file(self, name: str, type_name: str) -> None:
        """A register must be of the type's size, and not float where that is an integer or the reverse.

        PTX ISA 9.2, "Type Checking of Instructions"; where 9.4.1 allows it, a register may be wider.
        """
        found = self.names.registers[name]
        surplus = TYPE_BITS[found] - TYPE_BITS[type_name]
        wider = surplus > 0 and (self.instruction.opcode in _RELAXED or found == "b128")
        kinds = {"int" if t[0] in "us" else t[0] for t in (found, type_name)}
        if (found == "pred") != (type_name == "pred") or (surplus and not wider) or kinds == {"int", "f"}:
            raise Refusal(f"uses {name}, a .{found}, as a .{type_name}")

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
    if type_name in ("f16", "f16x2", "bf16", "bf16x2"):
        raise Refusal(f"has a constant where PTX has none: a register is needed for .{type_name}")
    if TYPE_BITS[type_name] == 64 and operand.kind == "f32bits":
        raise Refusal(f"has a single-precision constant where .{type_name} is needed")
    return operand.value
