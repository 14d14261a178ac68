"""The typed, immutable form of a PTX module.

Everything keeps its line number in the PTX text.  Names follow the PTX ISA: a *module* holds
*functions* and module-scope *variables*; a function body is a flat list of instructions, and a
label is the index of the instruction that it precedes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Space = Literal["reg", "global", "shared", "const", "local", "param", "generic"]


class PtxError(Exception):
    """PTX that cannot be read.  `line` is 1-based; `str()` is one sentence naming file and line."""

    def __init__(self, path: str, line: int, message: str):
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line, self.message = path, line, message


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register such as `%r4`; `negated` is the `!` of a predicate source."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, e.g. `%tid.x`, `%laneid`, `%clock`; also the constant `WARP_SZ`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal.  Integers hold their value; `0f...`/`0d...` and decimals hold bits (`kind` says which)."""

    value: int
    kind: Literal["int", "f32bits", "f64bits"] = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; base None means an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`; `_` is None."""

    elements: tuple[Operand | None, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`, the two destinations of setp, shfl, match; `_` is None."""

    first: Register | None
    second: Register | None


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A parenthesised list in a call: `(retval)` or `(a, b)`."""

    elements: tuple[Operand, ...]


Operand = Register | Special | Immediate | Symbol | Address | Vector | Pair | Label | Arguments


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A `.loc`: the CUDA source line an instruction was compiled from."""

    file: int
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction: `@guard opcode.modifiers operands;`

    `opcode` is the first word (`ld`), `modifiers` the dotted rest in order (`global`, `u32`).
    `index` is its position in the function body; `line` its 1-based line in the PTX text.
    """

    index: int
    line: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    location: SourceLocation | None = None

    @property
    def name(self) -> str:
        """The full dotted name, e.g. `mad.lo.s32`."""
        return ".".join((self.opcode, *self.modifiers))

    def has(self, *modifiers: str) -> bool:
        """Whether any of the modifiers is present."""
        return any(m in self.modifiers for m in modifiers)

    @property
    def types(self) -> tuple[str, ...]:
        """The type modifiers in order, e.g. ('u64', 's32') for cvt.u64.s32."""
        return tuple(m for m in self.modifiers if m in TYPE_BITS)


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address inside an initialiser: `symbol + addend` goes at byte `offset`."""

    offset: int
    symbol: str
    addend: int
    size: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter.  `size` in bytes (0 for `extern .shared a[]`); `init` little-endian."""

    name: str
    space: Space
    type: str
    align: int
    size: int
    line: int
    count: int | None = None
    init: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    external: bool = False

    @property
    def element(self) -> int | None:
        """The bytes by which an index into it counts; None if it is no array (PTX ISA 6.4.2)."""
        return None if self.count is None else (TYPE_BITS.get(self.type, 64) + 7) // 8


@dataclass(frozen=True, slots=True)
class Function:
    """A `.entry` kernel or a `.func`.  `registers` maps each name to its type (`b32`, `pred`, ...)."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    body: tuple[Instruction, ...]
    labels: dict[str, int]
    line: int
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file.  `files` maps the numbers of `.file` to paths; `lines` is the text, line 1 first."""

    path: str
    version: str
    target: str
    address_size: int
    files: dict[int, str]
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    lines: tuple[str, ...]

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The entry points, in order."""
        return tuple(f for f in self.functions if f.is_entry)


TYPE_BITS: dict[str, int] = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "usb" for bits in (8, 16, 32, 64)},
    "b128": 128, "f16": 16, "f16x2": 32, "bf16": 16, "bf16x2": 32, "f32": 32, "f64": 64,
}  # fmt: skip
