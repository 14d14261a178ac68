"""Inlining: a kernel and the device functions that it calls become one function without calls.

The machine has no return addresses, so calls are expanded where they stand (PTX ISA 7.1 and 9.7.12,
"call" and "ret").  What belongs to the n-th expansion of `f` carries the suffix `@fn`, which no PTX
identifier can have: its registers, labels, local variables and parameters.  Every instruction keeps its
line, text and CUDA line; the call itself becomes the jump to its callee and `ret` the jump to its end.

An indirect call tries each function whose address is taken and whose parameters have the right sizes.  What
is left stays a `call`: recursion, functions that the file only declares, an address where no function is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from .inline_parameters import as_registers
from .ir import (
    Address,
    Arguments,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

#: A body that has grown to this many instructions grows no further: no machine holds an eighth of it.
MAXIMUM = 4_000


def inlined(module: Module, kernel: Function, display_name: Callable[[str], str] = str) -> Function:
    """The kernel with its calls expanded; the kernel itself if it has none.

    Once there are more than MAXIMUM instructions calls are left as they are.
    display_name: a function's name as its author wrote it, which the suffix of an expansion shows.
    """
    if not any(instruction.opcode == "call" for instruction in kernel.body):
        return kernel
    expansion = _Expansion(module, display_name)
    expansion.expand(_Instance(kernel, "", {}), ())
    flat = replace(
        kernel,
        registers=expansion.registers,
        variables=tuple(expansion.variables.values()),
        body=tuple(expansion.body),
        labels=expansion.labels,
    )
    return as_registers(flat)


@dataclass(frozen=True, slots=True)
class Call:
    """The operands of a call: `call (results), callee, (arguments), prototype;`"""

    callee: Operand
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]

    @classmethod
    def of(cls, instruction: Instruction) -> Call:
        """Take a call apart."""
        results, operands = Arguments(()), instruction.operands
        if isinstance(operands[0], Arguments):
            results, operands = operands[0], operands[1:]
        arguments = operands[1] if len(operands) > 1 else None
        given = arguments.elements if isinstance(arguments, Arguments) else ()
        return cls(operands[0], results.elements, given)


@dataclass(frozen=True)
class _Instance:
    """One expansion of a function.  `places`: formal parameter -> the variable that stands for it."""

    function: Function
    suffix: str
    places: dict[str, str]

    @cached_property
    def _symbols(self) -> dict[str, str]:
        """Its own variables, renamed; shared ones are the same in all expansions."""
        own = (v.name for v in self.function.variables if v.space in ("local", "param"))
        return {name: name + self.suffix for name in own} | self.places

    def symbol(self, name: str) -> str:
        """A variable's name in the flat function."""
        return self._symbols.get(name, name)

    def operand(self, operand: Operand) -> Operand:
        """An operand in the names of this expansion."""
        match operand:
            case Register(name):
                return replace(operand, name=name + self.suffix)
            case Symbol(name):
                return replace(operand, name=self.symbol(name))
            case Label(name):
                return Label(name + self.suffix)
            case Address(base) if base is not None:
                renamed = self.operand(base)
                assert isinstance(renamed, Register | Symbol)
                return replace(operand, base=renamed)
            case Vector(elements):
                return Vector(tuple(e and self.operand(e) for e in elements))
            case Arguments(elements):
                return Arguments(tuple(self.operand(e) for e in elements))
            case Pair(first, second):
                halves = [half and Register(half.name + self.suffix) for half in (first, second)]
                return Pair(halves[0], halves[1])
        return operand

    def instruction(self, i: Instruction) -> Instruction:
        """An instruction in the names of this expansion."""
        guard = i.guard and replace(i.guard, register=i.guard.register + self.suffix)
        base = next((o.base for o in i.operands if isinstance(o, Address)), None)
        modifiers = i.modifiers
        if self.suffix and isinstance(base, Register):  # parameters of a device function lie in its frame
            modifiers = tuple("local" if m in ("param", "param::func") else m for m in modifiers)
        return replace(
            i, guard=guard, modifiers=modifiers, operands=tuple(self.operand(o) for o in i.operands)
        )


class _Expansion:
    def __init__(self, module: Module, display_name: Callable[[str], str]):
        self._display_name = display_name
        self.functions = {f.name: f for f in module.functions if "external" not in f.directives}
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._targets = [f for f in self.functions.values() if f.name in set(_addresses(module))]

    def expand(self, instance: _Instance, callers: tuple[str, ...]) -> None:
        """Append the body of an expansion; `callers` are the functions that it is in."""
        function = instance.function
        callers = (*callers, function.name)
        self.registers.update({name + instance.suffix: t for name, t in function.registers.items()})
        for variable in function.variables:
            name = instance.symbol(variable.name)
            self.variables[name] = replace(variable, name=name)
        at: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            at.setdefault(index, []).append(label + instance.suffix)
        for i in function.body:
            self._mark(at.get(i.index, ()))
            renamed = instance.instruction(i)
            if i.opcode == "call":
                self._call(renamed, callers)
            elif i.opcode == "ret" and instance.suffix:
                self._jump(renamed, f"$ret{instance.suffix}", renamed.guard)
            else:
                self._put(renamed)
        self._mark(at.get(len(function.body), ()))

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, i: Instruction, callers: tuple[str, ...]) -> None:
        call = Call.of(i)
        if isinstance(call.callee, Register):
            self._indirect(i, call, callers)
            return
        function = self.functions.get(call.callee.name) if isinstance(call.callee, Symbol) else None
        if function is None or not self._can_expand(function, call, callers):
            self._put(i)
            return
        suffix = self._suffix(function)
        if i.guard is not None:
            self._jump(i, f"$end{suffix}", replace(i.guard, negated=not i.guard.negated))
        else:
            self._jump(i, f"$call{suffix}", None)
        self._mark([f"$call{suffix}"])
        self._enter(replace(i, guard=None), call, function, suffix, callers)
        self._mark([f"$end{suffix}"])

    def _indirect(self, i: Instruction, call: Call, callers: tuple[str, ...]) -> None:
        """Compare the address with that of each candidate; the call itself stays for any other address."""
        end = f"$end{self._named('@call')}"
        if i.guard is not None:
            self._jump(i, end, replace(i.guard, negated=not i.guard.negated))
            i = replace(i, guard=None)
        for function in self._targets:
            if not self._can_expand(function, call, callers):
                continue
            suffix = self._suffix(function)
            differs = Register(f"%differs{suffix}")
            self.registers[differs.name] = "pred"
            operands = (differs, call.callee, Symbol(function.name))
            self._put(replace(i, opcode="setp", modifiers=("ne", "u64"), operands=operands))
            self._jump(i, f"$else{suffix}", Guard(differs.name))
            self._enter(i, call, function, suffix, callers)
            self._jump(i, end, None)
            self._mark([f"$else{suffix}"])
        self._put(i)
        self._mark([end])

    def _can_expand(self, function: Function, call: Call, callers: tuple[str, ...]) -> bool:
        """Whether the function takes such arguments, is not running already, and there is room for it."""
        formals, actuals = (*function.parameters, *function.returns), (*call.arguments, *call.results)
        if len(function.parameters) != len(call.arguments) or len(call.results) > len(function.returns):
            return False
        for formal, actual in zip(formals, actuals, strict=False):
            if isinstance(actual, Symbol):
                variable = self.variables.get(actual.name)
                if variable is None or variable.size != formal.size:
                    return False
        return function.name not in callers and len(self.body) < MAXIMUM

    def _enter(
        self, i: Instruction, call: Call, function: Function, suffix: str, callers: tuple[str, ...]
    ) -> None:
        """Pass arguments, expand the body, hand results back.

        A parameter is the caller's variable itself where there is one: the caller writes that before a call
        and reads it after one, the callee the other way round (PTX ISA 5.1.6).
        """
        places: dict[str, str] = {}
        bound: list[tuple[Variable, Operand | None]] = list(
            zip(function.parameters, call.arguments, strict=True)
        )
        results = [*call.results, *(None for _ in function.returns[len(call.results) :])]
        bound += zip(function.returns, results, strict=True)
        for formal, actual in bound:
            if formal.space == "reg":
                continue
            if isinstance(actual, Symbol):
                places[formal.name] = actual.name
            else:
                name = places[formal.name] = formal.name + suffix
                self.variables[name] = replace(formal, name=name)
        instance = _Instance(function, suffix, places)
        for formal, argument in zip(function.parameters, call.arguments, strict=True):
            self._move(i, formal, instance, argument, given=True)
        self.expand(instance, callers)
        self._mark([f"$ret{suffix}"])
        for formal, result in zip(function.returns, call.results, strict=False):
            self._move(i, formal, instance, result, given=False)

    def _move(
        self, i: Instruction, formal: Variable, instance: _Instance, actual: Operand, given: bool
    ) -> None:
        """Move an argument to where the callee has it, or a result from there."""
        if actual == Pair(None, None):  # `_`: nobody wants it
            return
        kind = f"b{8 * formal.size}"
        other: Operand
        access: tuple[Operand, Operand]
        if formal.space == "reg":
            inside = Register(formal.name + instance.suffix)
            if not isinstance(actual, Symbol):
                operands = (inside, actual) if given else (actual, inside)
                self._put(replace(i, opcode="mov", modifiers=(kind,), operands=operands))
                return
            place, other, writes = Address(actual), inside, not given
        elif isinstance(actual, Symbol):  # the variable is the parameter
            return
        else:
            place, other, writes = Address(Symbol(instance.places[formal.name])), actual, given
        opcode, access = ("st", (place, other)) if writes else ("ld", (other, place))
        self._put(replace(i, opcode=opcode, modifiers=("param", kind), operands=access))

    # --- pieces ----------------------------------------------------------------------------------

    def _suffix(self, function: Function) -> str:
        plain = self._display_name(function.name).partition("<")[0].rpartition("::")[2]
        return self._named(f"@{plain}")

    def _named(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}{self._counts[stem]}"

    def _put(self, i: Instruction) -> None:
        self.body.append(replace(i, index=len(self.body)))

    def _jump(self, i: Instruction, label: str, guard: Guard | None) -> None:
        """A branch that stands for `i`."""
        self._put(replace(i, opcode="bra", modifiers=(), operands=(Label(label),), guard=guard))

    def _mark(self, labels: Iterator[str] | list[str] | tuple[()]) -> None:
        for label in labels:
            self.labels[label] = len(self.body)


def _addresses(module: Module) -> Iterator[str]:
    """Symbols whose address is taken by an instruction or an initialiser, among them those of functions."""
    for variable in module.variables:
        yield from (relocation.symbol for relocation in variable.relocations)
    for function in module.functions:
        for i in function.body:
            yield from (o.name for o in i.operands if isinstance(o, Symbol) and i.opcode != "call")
