"""Calls of device functions and returns from them (PTX ISA 7.1 and 9.7.12, "call" and "ret").

A call copies its arguments into the callee's frame or registers, and a return copies the results back.
Each lane has its own stack, so that lanes may be in different functions and at different depths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.ptx.ir import TYPE_BITS, Arguments, Operand, Pair, Register, Symbol, Variable
from qdbg.runtime.interpreter.builtins import BUILTINS
from qdbg.runtime.interpreter.data import Action, allow, builder
from qdbg.runtime.interpreter.errors import Refusal, Unsupported
from qdbg.runtime.interpreter.forms import Array
from qdbg.runtime.interpreter.names import EXIT, FRAME_ALIGN
from qdbg.runtime.interpreter.operands import Decoder, Read, Write

if TYPE_CHECKING:
    from qdbg.runtime.interpreter.program import Routine
    from qdbg.runtime.interpreter.warp import Warp


@dataclass(frozen=True, slots=True)
class InFrame:
    """`size` bytes at `offset` in the frame that is current when they are moved."""

    offset: int
    size: int

    def fetch(self, warp: Warp, lanes: Array) -> Array:
        """The bytes, uint8 [lanes, size]."""
        return warp.memory.image[self._places(warp, lanes)]

    def deliver(self, warp: Warp, lanes: Array, values: Array) -> None:
        """Store such bytes."""
        warp.memory.image[self._places(warp, lanes)] = values

    def _places(self, warp: Warp, lanes: Array) -> Array:
        first = warp.stack.frame[lanes, np.newaxis].astype(np.int64) + self.offset
        return warp.memory.local_places(first + np.arange(self.size), warp.threads[lanes, np.newaxis])


@dataclass(frozen=True, slots=True)
class InRegister:
    """A register of `size` bytes, or an argument that is a constant."""

    read: Read
    write: Write | None
    size: int

    def fetch(self, warp: Warp, lanes: Array) -> Array:
        """The value's bytes, uint8 [lanes, size]."""
        return np.ascontiguousarray(self.read(warp)[lanes]).view(np.uint8).reshape(len(lanes), self.size)

    def deliver(self, warp: Warp, lanes: Array, values: Array) -> None:
        """Write such bytes."""
        assert self.write is not None, "a constant is never a destination"
        whole = np.zeros((warp.lanes, self.size), np.uint8)
        whole[lanes] = values
        active = np.zeros(warp.lanes, np.bool_)
        active[lanes] = True
        self.write(warp, active, whole.view(f"<u{self.size}")[:, 0])


Place = InFrame | InRegister


@dataclass(frozen=True, slots=True)
class Binding:
    """A call of one routine: each argument and result as (where it is, where it goes)."""

    arguments: tuple[tuple[Place, Place], ...]
    results: tuple[tuple[Place, Place], ...]
    saved: tuple[str, ...]


class Call:
    """The action of a call.  `target` is the callee's name, or reads its address."""

    def __init__(
        self,
        decoder: Decoder,
        target: str | Read,
        results: tuple[Operand, ...],
        arguments: tuple[Operand, ...],
    ):
        self._decoder, self._target = decoder, target
        self._results, self._arguments = results, arguments
        self._bindings: dict[str, Binding] = {}

    def __call__(self, warp: Warp, active: Array) -> Array:
        """Enter the callees; returns where the lanes go on."""
        going_on = np.full(warp.lanes, EXIT)
        for routine, lanes in self._callees(warp, np.flatnonzero(active)):
            binding = self._binding(warp, routine)
            values = [source.fetch(warp, lanes) for source, _ in binding.arguments]
            frames = self._frames(warp, routine, lanes)
            size = routine.names.frame_bytes
            warp.memory.use_local(int(frames.max()) + size)
            warp.stack.push(lanes, warp.index + 1, frames, size, binding.saved, warp.registers)
            for (_, destination), value in zip(binding.arguments, values, strict=True):
                destination.deliver(warp, lanes, value)
            going_on[lanes] = routine.start
        return going_on

    def leave(self, warp: Warp, routine: Routine, lanes: Array) -> None:
        """Return the lanes from `routine`, which this call entered."""
        binding = self._binding(warp, routine)
        values = [source.fetch(warp, lanes) for source, _ in binding.results]
        warp.stack.pop(lanes, binding.saved, warp.registers)
        for (_, destination), value in zip(binding.results, values, strict=True):
            destination.deliver(warp, lanes, value)

    def _callees(self, warp: Warp, lanes: Array) -> list[tuple[Routine, Array]]:
        if isinstance(self._target, str):
            return [(warp.program.named(self._target), lanes)]
        addresses = self._target(warp)[lanes]
        found = []
        for address in np.unique(addresses):
            here = lanes[addresses == address]
            routine = warp.program.at_address(int(address))
            if routine is None:
                lane = int(here[0])
                raise warp.fault(
                    f"{warp.name(lane)} calls address {int(address):#x}, where no function is; "
                    "check the function pointer", "bad call", lane, int(address),
                )  # fmt: skip
            found.append((routine, here))
        return found

    def _frames(self, warp: Warp, routine: Routine, lanes: Array) -> Array:
        """Where the new frames begin."""
        align = np.uint64(FRAME_ALIGN)
        frames = (warp.stack.top[lanes] + align - np.uint64(1)) // align * align
        full = frames + np.uint64(routine.names.frame_bytes) > np.uint64(warp.memory.stack_end)
        if full.any():
            lane = int(lanes[np.argmax(full)])
            raise warp.fault(
                f"{warp.name(lane)} has no room for the frame of {routine.function.name}, being in "
                f"{int(warp.stack.depth[lane])} nested calls that fill the {warp.memory.stack_end} bytes of "
                "its local memory; end the recursion, or make its variables smaller", "stack overflow", lane,
            )  # fmt: skip
        return frames

    def _binding(self, warp: Warp, routine: Routine) -> Binding:
        found = self._bindings.get(routine.function.name)
        if found is None:
            try:
                found = self._bind(routine, routine in warp.program.recursive)
            except Refusal as refusal:
                names = self._decoder.names
                raise Unsupported(names.bound.source, self._decoder.instruction, str(refusal)) from None
            self._bindings[routine.function.name] = found
        return found

    def _bind(self, routine: Routine, recursive: bool) -> Binding:
        function, names = routine.function, routine.names
        for what, given, declared in (
            ("arguments", self._arguments, function.parameters),
            ("results", self._results, function.returns),
        ):
            if len(given) != len(declared):
                raise Refusal(f"has {len(given)} {what}, and {function.name} has {len(declared)}")
        callee = Decoder(names, self._decoder.lanes, self._decoder.instruction)
        inner = [_formal(callee, variable) for variable in (*function.parameters, *function.returns)]
        outer = [
            actual(self._decoder, operand, place.size, written=index >= len(self._arguments))
            for index, (operand, place) in enumerate(
                zip((*self._arguments, *self._results), inner, strict=True)
            )
        ]
        count = len(self._arguments)
        return Binding(
            tuple(zip(outer[:count], inner[:count], strict=True)),
            tuple(zip(inner[count:], outer[count:], strict=True)),
            tuple(names.key(register) for register in names.registers) if recursive else (),
        )


def _formal(decoder: Decoder, variable: Variable) -> Place:
    """Where a function has a parameter or result of its own."""
    names = decoder.names
    if variable.space == "param":
        return InFrame(names.frame[variable.name], variable.size)
    type_name = f"b{TYPE_BITS[variable.type]}"
    register = Register(variable.name)
    return InRegister(decoder.read(register, type_name), decoder.write(register, type_name), variable.size)


def actual(decoder: Decoder, operand: Operand, size: int, written: bool = False) -> Place:
    """Where the caller has an argument, or wants a result, of `size` bytes."""
    names = decoder.names
    if isinstance(operand, Symbol) and operand.name in names.frame:
        variables = (*names.function.variables, *names.function.parameters, *names.function.returns)
        variable = next(v for v in variables if v.name == operand.name)
        if variable.size != size:
            raise Refusal(f"passes {variable.name}, which has {variable.size} bytes and not {size}")
        return InFrame(names.frame[operand.name], size)
    if size not in (1, 2, 4, 8):
        raise Refusal(f"passes one value where there are {size} bytes")
    type_name = f"b{8 * size}"
    write = decoder.write(operand, type_name) if written else None
    if operand == Pair(None, None):  # `_`: a result that nobody wants
        return InRegister(_nothing, write, size)
    return InRegister(decoder.read(operand, type_name), write, size)


def _nothing(warp: Warp) -> Array:
    return np.zeros(warp.lanes, np.uint8)


@builder("call")
def _call(decoder: Decoder) -> Action:
    """`call (results), function, (arguments), prototype;` where all but the function may be missing.

    An indirect call is bound to each function that it reaches, so its prototype or table says nothing new.
    """
    allow(decoder, "uni")
    operands = decoder.instruction.operands
    results: tuple[Operand, ...] = ()
    if isinstance(operands[0], Arguments):
        results, operands = operands[0].elements, operands[1:]
    callee, *rest = operands
    arguments = rest[0].elements if rest and isinstance(rest[0], Arguments) else ()
    if isinstance(callee, Register):
        return Call(decoder, decoder.read(callee, "b64"), results, arguments)
    if not isinstance(callee, Symbol):
        raise Refusal("calls something that is not a function")
    function = next((f for f in decoder.names.bound.source.ptx.functions if f.name == callee.name), None)
    if function is None or function.is_entry:
        raise Refusal(f"calls {callee.name}, which is not a device function")
    if "external" not in function.directives:
        return Call(decoder, callee.name, results, arguments)
    provided = BUILTINS.get(callee.name)
    if provided is None:
        raise Refusal(f"calls {callee.name}, which the file only declares and which is not supported")
    if len(results) > len(function.returns) or len(arguments) != len(function.parameters):
        raise Refusal(f"does not have the arguments of {callee.name}")
    places = [actual(decoder, a, v.size) for a, v in zip(arguments, function.parameters, strict=True)]
    targets = [actual(decoder, r, v.size, True) for r, v in zip(results, function.returns, strict=False)]
    return provided(places, targets)


@builder("ret")
def _ret(decoder: Decoder) -> Action:
    """Leaves a function; a kernel's `ret` ends its thread, as `exit` does."""
    allow(decoder, "uni")
    names = decoder.names
    return _exit if names.function.is_entry else _return


def _exit(warp: Warp, active: Array) -> int:
    return EXIT


def _return(warp: Warp, active: Array) -> Array:
    lanes = np.flatnonzero(active)
    routine = warp.program.routine(warp.index)
    targets = np.full(warp.lanes, EXIT)
    targets[lanes] = warp.stack.going_on(lanes)
    for index in np.unique(targets[lanes]):
        call = warp.program.operation(int(index) - 1).action
        assert isinstance(call, Call), "a frame is entered by a call only"
        call.leave(warp, routine, lanes[targets[lanes] == index])
    return targets
