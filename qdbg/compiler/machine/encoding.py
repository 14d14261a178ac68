"""The instruction word: 77 bits, in which the program stands in the weights' state."""

from __future__ import annotations

from dataclasses import dataclass

from qdbg.compiler.machine.isa import NONE, UNIFORM, VALUE_OPS, Instr, Op


@dataclass(frozen=True, slots=True)
class Field:
    """Bits [low, low+width) of the 77-bit instruction word."""

    low: int
    width: int


#: The instruction word.  BR keeps its target in `dst` and its skip address in `a` (bit 8 of each in
#: `target8` and the low bit of `scale`); the destination of the instruction before stands in `before`,
#: so that a result can still be written once the pc moved on.
FIELDS = {
    "op": Field(0, 6),
    "a": Field(6, 8),
    "b": Field(14, 8),
    "c": Field(22, 8),
    "dst": Field(30, 8),
    "before": Field(38, 8),
    "care": Field(46, 8),
    "value": Field(54, 8),
    "scale": Field(62, 2),
    "immb": Field(64, 1),
    "unchained": Field(65, 1),
    "target8": Field(66, 1),
    "cond": Field(67, 4),
    "width": Field(71, 3),
    "signed": Field(74, 1),
    "shared": Field(75, 1),
    "held": Field(76, 1),
}
WORD_BITS = 77
#: `dst` of CBR and CLR is SLOT_BASE + slot: no register has that number.
SLOT_BASE = 64


def encode(instr: Instr, before: Instr | None) -> int:
    """The 77-bit word of `instr`, which follows `before` in straight-line code."""
    fields = {
        "op": int(instr.op),
        "a": instr.a.code,
        "b": instr.b.code,
        "c": instr.c.code,
        "dst": _destination(instr),
        "before": NONE.code if before is None or before.op is Op.UBR else _destination(before),
        "care": instr.pattern.care,
        "value": instr.pattern.value,
        "scale": instr.scale,
        "immb": int(instr.immediate_is_b),
        "unchained": int(instr.unchained),
        "cond": int(instr.cond),
        "width": int(instr.width),
        "signed": int(instr.signed),
        "shared": int(instr.shared),
        "held": int(instr.held),
    }
    if instr.op in (Op.BR, Op.UBR):
        fields["target8"] = instr.target >> 8
    if instr.op is Op.BR:
        fields["a"], fields["scale"] = instr.skip & 0xFF, instr.skip >> 8
    word = 0
    for name, content in fields.items():
        field_ = FIELDS[name]
        if not 0 <= content < 1 << field_.width:
            raise ValueError(f"{name}={content} does not fit {field_.width} bits in {instr}")
        word |= content << field_.low
    return word


def _destination(instr: Instr) -> int:
    if instr.op in (Op.CBR, Op.CLR):
        return SLOT_BASE + instr.slot
    if instr.op in (Op.BR, Op.UBR):
        return instr.target & 0xFF
    return instr.dst.code


@dataclass(slots=True)
class Word:
    """A decoded instruction word; `skip` and `target` are meaningful for their own operations."""

    op: Op
    a: int
    b: int
    c: int
    dst: int
    before: int
    care: int
    value: int
    scale: int
    immb: int
    unchained: int
    target8: int
    cond: int
    width: int
    signed: int
    shared: int
    held: int

    @classmethod
    def decode(cls, bits: int) -> Word:
        """The word with these 77 bits; an operation that does not exist does nothing."""
        raw = {name: bits >> f.low & ((1 << f.width) - 1) for name, f in FIELDS.items()}
        op = raw.pop("op")
        return cls(Op(op) if op <= max(Op) else Op.NOP, **raw)

    @property
    def target(self) -> int:
        """Where BR and UBR go."""
        return self.dst | self.target8 << 8

    @property
    def skip(self) -> int:
        """Where BR goes with no lane active."""
        return self.a | (self.scale & 1) << 8

    @property
    def uniform(self) -> bool:
        """See `Instr.uniform`, of operations with a result."""
        return not self.held and self.op in VALUE_OPS and bool(self.dst & UNIFORM)
