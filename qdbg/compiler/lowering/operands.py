"""PTX operands as values: registers, literals, symbols, parameters and special registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qdbg.compiler.lowering.builder import Builder
from qdbg.compiler.lowering.ir import LANE, MASK, Geometry, Parameter, Value
from qdbg.compiler.lowering.lanes import Lanes
from qdbg.compiler.lowering.types import Unsupported
from qdbg.compiler.machine.isa import Op
from qdbg.compiler.ptx.ir import (
    TYPE_BITS,
    Address,
    Arguments,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)

#: Machine registers that hold the block index; they exist for axes along which the grid extends.
BLOCK_INDEX = {axis: f"%ctaid.{axis}" for axis in "xyz"}


class Operands:
    """Evaluates operands; what needs computing is appended to the builder."""

    def __init__(self, module: Module, kernel: Function, geometry: Geometry, builder: Builder):
        self.kernel, self.geometry, self.builder = kernel, geometry, builder
        self.spaces = {variable.name: variable.space for variable in (*module.variables, *kernel.variables)}
        self.lanes = Lanes(builder, geometry)
        self.parameter_offsets: dict[str, int] = {}
        end = 0
        for parameter in kernel.parameters:
            start = -(-end // max(parameter.align, 1)) * max(parameter.align, 1)
            self.parameter_offsets[parameter.name] = start
            end = start + parameter.size
        self.constants = self._constants()
        self.arrives = any(i.opcode in ("bar", "barrier") and i.has("arrive") for i in kernel.body)

    def _constants(self) -> dict[str, int]:
        """The bits of registers that hold one known value wherever they hold any: only a mov writes them."""
        writers: dict[str, list[Instruction]] = {}
        for instruction in self.kernel.body:
            for register in _written(instruction.operands[:1]):
                writers.setdefault(register, []).append(instruction)
        found = {}
        for register, instructions in writers.items():
            first = instructions[0]
            if len(instructions) == 1 and first.opcode == "mov" and first.guard is None:
                source = first.operands[1]
                known: Value | None = None
                if isinstance(source, Immediate):
                    known = source.value
                elif isinstance(source, Special):
                    known = self._special(source.name)
                if isinstance(known, int):
                    found[register] = known & (1 << TYPE_BITS[self.kernel.registers[register]]) - 1
        return found

    def value(self, operand: Operand) -> Value:
        """The operand's low 32 bits.  Raises Unsupported."""
        match operand:
            case Register(name, negated):
                known: Value = self.constants[name] & MASK if name in self.constants else name
                return self.builder.op(Op.XOR, known, 1) if negated else known
            case Immediate(value):
                return value & MASK
            case Symbol(name, offset) if name in self.geometry.symbols:
                return (self.geometry.symbols[name] + offset) & MASK
            case Symbol(name, offset) if name in self.parameter_offsets:
                return (self.parameter_offsets[name] + offset) & MASK
            case Special(name):
                if (special := self._special(name)) is None:
                    raise Unsupported(f"the special register `{name}`")
                return special
        raise Unsupported

    def address(self, operand: Operand, space: str) -> tuple[Value, int]:
        """Base and byte offset of a memory operand in the machine's memory.  Raises Unsupported."""
        if not isinstance(operand, Address):
            raise Unsupported
        base = 0 if operand.base is None else self.value(operand.base)
        window = self.window(self.space(operand, space))
        if isinstance(window, int):
            return base, operand.offset + window & MASK
        return self.builder.op(Op.ADD, base, c=window), operand.offset & MASK

    def space(self, operand: Operand, space: str) -> str:
        """The state space of a memory operand: that of its symbol where the instruction names none."""
        if space == "generic" and isinstance(operand, Address) and isinstance(operand.base, Symbol):
            return self.spaces.get(operand.base.name, space)
        return space

    def window(self, space: str) -> Value:
        """Where the addresses of a state space count from."""
        match space:
            case "shared":
                return self.geometry.shared_base
            case "param":
                return self.geometry.parameters
            case "local":
                return self.lanes.op(Op.MAD, LANE, self.geometry.stride, addend=self.geometry.local)
        return 0

    def parameter(self, operand: Operand, more: int = 0) -> tuple[Parameter, int]:
        """The word of the parameter space that an address plus `more` falls into, and the byte within it."""
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            start = self.parameter_offsets.get(operand.base.name)
            if start is not None:
                word, byte = divmod(start + operand.base.offset + operand.offset + more, 4)
                return Parameter(word), byte
        raise Unsupported

    def _special(self, name: str) -> Value | None:
        """A special register; None for one that the machine lacks."""
        register, _, axis = name.partition(".")
        if axis in ("x", "y", "z"):
            index = "xyz".index(axis)
            grid, block = self.geometry.grid, self.geometry.block
            match register:
                case "%ntid":
                    return block[index]
                case "%nctaid":
                    return grid[index]
                case "%ctaid":
                    return BLOCK_INDEX[axis] if grid[index] > 1 else 0
                case "%tid":
                    return self.lanes.thread_index(axis)
        return self.lanes.special(name)


def _written(operands: Iterable[Operand | None]) -> Iterator[str]:
    """The registers among operands that may be destinations."""
    for operand in operands:
        match operand:
            case Register(name):
                yield name
            case Vector(elements) | Arguments(elements):
                yield from _written(elements)
            case Pair(first, second):
                yield from _written((first, second))
