"""What the symbols of a function stand for, and how its local frame is laid out.

A frame lies in local memory (PTX ISA 5.1.5 and 5.1.6): return parameters and parameters of a device
function, then the `.local` variables and the `.param` variables of the function's call scopes.  A kernel's
own parameters lie in the parameter window instead.
"""

from __future__ import annotations

from qdbg.compiler.ptx.ir import Function, Space
from qdbg.runtime.launch import BoundLaunch
from qdbg.runtime.launch_memory import function_addresses
from qdbg.runtime.launch_private import frame_offsets, framed_variables

#: Frames start at multiples of this, the strictest alignment that PTX allows for a variable in practice.
FRAME_ALIGN = 32
#: Behind the name of a `.b128` register: its upper half.
HIGH = ".hi"
#: The program counter of a lane that has exited.
EXIT = -1


class Names:
    """The names of one function of a launch.

    function: the function; bound: the launch; start: index of its first instruction in the linked code;
    registers: name -> type, a `.b128` register being two, named `%q` and `%q.hi`;
    constants: symbol -> address that is the same in every lane; frame: symbol -> offset in the function's
    frame, of which `frame_bytes` is the size; spaces: symbol -> the state space it lives in, which is
    `local` for everything in the frame.
    """

    def __init__(self, function: Function, bound: BoundLaunch, start: int = 0):
        self.function, self.bound, self.start = function, bound, start
        module = bound.source.ptx
        self.registers = dict(function.registers)
        self.registers.update({name + HIGH: "b128" for name, t in function.registers.items() if t == "b128"})
        self.constants = {**function_addresses(module), **bound.symbols}
        declared = [*module.variables, *function.variables]
        self.spaces: dict[str, Space] = {variable.name: variable.space for variable in declared}
        framed = framed_variables(function)
        if function.is_entry:
            self.constants.update(bound.parameter_offsets)
            self.spaces.update(dict.fromkeys(bound.parameter_offsets, "param"))
        else:
            framed[:0] = [v for v in (*function.returns, *function.parameters) if v.space == "param"]
        self.frame, end = frame_offsets(framed)
        self.spaces.update(dict.fromkeys(self.frame, "local"))
        # Even an empty frame takes room, so that endless recursion ends.
        self.frame_bytes = end if function.is_entry else max(-(-end // FRAME_ALIGN), 1) * FRAME_ALIGN

    def key(self, register: str) -> str:
        """The name under which a warp keeps a register: a kernel's own, else `function::register`."""
        return register if self.function.is_entry else f"{self.function.name}::{register}"

    def target(self, label: str) -> int:
        """The index in the linked code that a label stands for; behind the end of a kernel lies its exit."""
        index = self.function.labels[label]
        ends = self.function.is_entry and index == len(self.function.body)
        return EXIT if ends else self.start + index
