"""Random PTX kernels that terminate, stay in bounds and have no races, so that every correct engine agrees.

A kernel works on eight 32-bit variables and four predicates a thread.  It reads an array `inp` anywhere, and
writes 12 words of `out` that are the thread's own: the first eight receive the variables when it returns.
Control flow is structured (if, else, short circuit, switch, loops with break and continue, early return)
and depends on the thread unless it is drawn to depend on the launch only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from generate_integers import statement
from hypothesis import strategies as st

VARIABLES, PREDICATES, OWN = 8, 4, 12
INPUTS = 16
_BINARY = (
    "add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32",
    "min.s32", "min.u32", "max.s32", "max.u32", "add.u32",
)  # fmt: skip
_UNARY = ("not.b32", "neg.s32", "abs.s32", "mov.u32", "cnot.b32")
_COMPARE = tuple(f"{c}.{t}" for c in ("eq", "ne", "lt", "le", "gt", "ge") for t in ("s32", "u32"))
_CONVERSIONS = ("cvt.s32.s8", "cvt.u32.u8", "cvt.s32.s16", "cvt.u32.u16", "cvt.u32.s16")
_CONSTANTS = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    31,
    32,
    33,
    0xFF,
    0x8000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0xFFFFFFFC,
)


@dataclass(frozen=True)
class Case:
    """A PTX file with its launch in a comment; it fits a machine of `block` lanes and 128 words."""

    text: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]


@st.composite
def programs(
    draw: st.DrawFn, max_block: int = 4, max_grid: int = 2, size: int = 12, depth: int = 3,
    integers: bool = False,
) -> Case:  # fmt: skip
    """Kernels of about `size` statements nested at most `depth` deep, launched with small blocks.

    integers: draw from the whole integer instruction set, see `generate_integers`.
    """
    width = draw(st.integers(1, max_block))
    block = draw(
        st.sampled_from([(width, 1, 1)] + [(width // 2, 2, 1), (1, width // 2, 2)] * (width % 2 == 0))
    )
    grid = draw(st.sampled_from([(1, 1, 1), (max_grid, 1, 1), (1, max_grid, 1)]))
    writer = _Writer(draw, size, integers)
    writer.statements(depth, top=True)
    threads = grid[0] * grid[1] * block[0] * block[1] * block[2]
    word = st.one_of(st.sampled_from(_CONSTANTS), st.integers(0, 0xFFFFFFFF))
    inputs = draw(st.lists(word, min_size=INPUTS, max_size=INPUTS))
    number = draw(st.integers(0, 5))
    text = (
        f"// qdbg: launch k<<<{grid}, {block}>>>"
        f"(inp = u32{inputs}, out = u32[{threads * OWN}], n = {number})\n"
        + _HEAD
        + "\n".join(writer.lines)
        + _TAIL
    )
    return Case(text, block, grid)


_HEAD = f""".version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 inp, .param .u64 out, .param .u32 n)
{{
.reg .pred %p<{PREDICATES + 1}>; .reg .pred %q<64>;
.reg .b16 %h<4>; .reg .b32 %v<{VARIABLES}>; .reg .b32 %r<12>; .reg .b32 %c<64>; .reg .b64 %d<8>;
ld.param.u64 %d0, [inp]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [n];
cvta.to.global.u64 %d0, %d0;
mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ntid.y;
mad.lo.u32 %r6, %r4, %r5, %r3; mad.lo.u32 %r6, %r6, %r1, %r2;
mov.u32 %r7, %ntid.z; mul.lo.u32 %r7, %r7, %r5; mul.lo.u32 %r7, %r7, %r1;
mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ctaid.y; add.u32 %r8, %r8, %r9;
mad.lo.u32 %r9, %r8, %r7, %r6;
mul.wide.u32 %d2, %r9, {4 * OWN}; add.s64 %d2, %d1, %d2;
mov.u32 %v0, %r6; mov.u32 %v1, %r9; mov.u32 %v2, 0; mov.u32 %v3, 1; mov.u32 %v4, %r0; mov.u32 %v5, %r8;
cvt.u16.u32 %h0, %r6; cvt.u16.u32 %h1, %r9; cvt.u16.u32 %h2, %r0;
mov.u32 %v6, 0; mov.u32 %v7, -3; mov.u64 %d3, 5; mov.u64 %d4, -1;
setp.eq.u32 %p0, %r6, 0; setp.lt.u32 %p1, %r6, 2; setp.ne.u32 %p2, %r0, 0; setp.eq.u32 %p3, 0, 0;
"""
_TAIL = (
    "\n$DONE:\n" + "\n".join(f"st.global.u32 [%d2+{4 * i}], %v{i};" for i in range(VARIABLES)) + "\nret;\n}\n"
)


@dataclass
class _Writer:
    """Draws statements and writes them as PTX.  `loops` holds the labels of the loops around, inner last."""

    draw: st.DrawFn
    budget: int
    integers: bool = False
    lines: list[str] = field(default_factory=list)
    loops: list[tuple[str, str]] = field(default_factory=list)
    fresh: int = 0

    def label(self) -> str:
        self.fresh += 1
        return f"$L{self.fresh}"

    def put(self, *lines: str) -> None:
        self.lines += lines

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def variable(self) -> str:
        return f"%v{self.draw(st.integers(0, VARIABLES - 1))}"

    def source(self) -> str:
        """A variable, something uniform, or a constant."""
        constant = str(self.draw(st.sampled_from(_CONSTANTS)))
        return self.pick(self.variable(), self.variable(), constant, "%r0", "%r6", "%r8")

    def predicate(self) -> str:
        return f"%p{self.draw(st.integers(0, PREDICATES - 1))}"

    def condition(self) -> str:
        """A predicate as a guard, perhaps computed here; sometimes the same for all threads."""
        choice = self.pick("old", "new", "uniform")
        negated = self.pick("", "!")
        if choice == "old":
            return negated + self.predicate()
        left = self.variable() if choice == "new" else self.pick("%r0", "%r8")
        right = self.source() if choice == "new" else str(self.draw(st.integers(0, 3)))
        self.fresh += 1
        register = f"%q{self.fresh % 64}"
        self.put(f"setp.{self.pick(*_COMPARE)} {register}, {left}, {right};")
        return negated + register

    # --- statements ----------------------------------------------------------------------------------

    def statements(self, depth: int, top: bool = False) -> None:
        for _ in range(self.draw(st.integers(4 if top else 1, self.budget if top else 4))):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(depth)
            if top and self.draw(st.integers(0, 5)) == 0:
                self.put("bar.sync 0;")

    def statement(self, depth: int) -> None:
        simple = (self.assign, self.assign, self.compare, self.load, self.store, self.guarded)
        nested = (self.branch, self.branch, self.loop, self.short_circuit, self.switch)
        leaving = (self.leave_loop, self.leave) if depth < 3 else ()
        kind = self.draw(st.sampled_from((*simple, *(nested if depth else ()), *leaving)))
        if kind in nested:
            kind(depth - 1)  # type: ignore[operator]
        else:
            kind()  # type: ignore[operator]

    def assign(self) -> None:
        if self.integers and self.draw(st.booleans()):
            return self.put(*self.integer())
        dst, kind = self.variable(), self.pick("binary", "unary", "mad", "lop3", "selp", "cvt", "wide")
        if kind == "binary":
            self.put(f"{self.pick(*_BINARY)} {dst}, {self.source()}, {self.source()};")
        elif kind == "unary":
            self.put(f"{self.pick(*_UNARY)} {dst}, {self.source()};")
        elif kind == "mad":
            self.put(f"mad.lo.s32 {dst}, {self.source()}, {self.source()}, {self.source()};")
        elif kind == "lop3":
            table = self.draw(st.integers(0, 255))
            self.put(f"lop3.b32 {dst}, {self.variable()}, {self.source()}, {self.source()}, {table};")
        elif kind == "selp":
            self.put(f"selp.b32 {dst}, {self.source()}, {self.source()}, {self.predicate()};")
        elif kind == "cvt":
            self.put(f"cvt.u16.u32 %h0, {self.variable()};")
            if self.draw(st.booleans()):
                self.put(f"add.s16 %h0, %h0, {self.draw(st.integers(0, 999))};")
            self.put(f"{self.pick(*_CONVERSIONS)} {dst}, %h0;")
        else:
            sign = self.pick("u32", "s32")
            self.put(f"mul.wide.{sign} %d3, {self.variable()}, {self.source()};")
            self.put(f"add.s64 %d3, %d3, %d{self.draw(st.integers(3, 4))};")
            self.put(f"{self.pick('cvt.u32.u64', 'cvt.s32.s64')} {dst}, %d3;")
            if self.draw(st.booleans()):
                self.put(f"shl.b64 %d4, %d3, {self.draw(st.integers(0, 40))};")

    def integer(self) -> list[str]:
        """Instructions of the whole integer set."""
        return statement(self.draw, self.variable, self.source, f"%p{PREDICATES}", 4 * VARIABLES)

    def compare(self) -> None:
        kind = self.pick("plain", "combined", "logic", "not")
        dst, other = self.predicate(), self.predicate()
        if kind == "plain":
            self.put(f"setp.{self.pick(*_COMPARE)} {dst}, {self.source()}, {self.source()};")
        elif kind == "combined":
            name, type_ = self.pick(*_COMPARE).split(".")
            second = self.pick("", f"|%p{PREDICATES}")
            logic, negated = self.pick("and", "or", "xor"), self.pick("", "!")
            operands = f"{self.variable()}, {self.source()}, {negated}{other}"
            self.put(f"setp.{name}.{logic}.{type_} {dst}{second}, {operands};")
        elif kind == "logic":
            self.put(f"{self.pick('and', 'or', 'xor')}.pred {dst}, {other}, {self.predicate()};")
        else:
            self.put(f"not.pred {dst}, {other};")

    def load(self) -> None:
        self.put(f"and.b32 %r10, {self.source()}, {INPUTS - 1};", "mul.wide.u32 %d5, %r10, 4;")
        self.put("add.s64 %d5, %d0, %d5;", f"ld.global.u32 {self.variable()}, [%d5];")

    def store(self) -> None:
        """To the last of the thread's own words, and sometimes back."""
        self.put(f"and.b32 %r10, {self.source()}, {OWN - VARIABLES - 1};", "shl.b32 %r10, %r10, 2;")
        self.put("cvt.u64.u32 %d5, %r10;", "add.s64 %d5, %d2, %d5;")
        place = f"[%d5+{4 * VARIABLES}]"
        self.put(f"st.global.u32 {place}, {self.variable()};")
        if self.draw(st.booleans()):
            self.put(f"ld.global.u32 {self.variable()}, {place};")

    def guarded(self) -> None:
        guard = self.condition()
        what = self.pick("op", "store", "setp", *["integer"] * self.integers)
        if what == "integer":
            self.put(*(f"@{guard} {line}" for line in self.integer()))
        elif what == "op":
            self.put(f"@{guard} {self.pick(*_BINARY)} {self.variable()}, {self.source()}, {self.source()};")
        elif what == "store":
            self.put(f"@{guard} st.global.u32 [%d2+{4 * VARIABLES}], {self.variable()};")
        else:
            self.put(
                f"@{guard} setp.{self.pick(*_COMPARE)} {self.predicate()}, {self.source()}, {self.source()};"
            )

    def branch(self, depth: int) -> None:
        otherwise, join = self.label(), self.label()
        has_else = self.draw(st.booleans())
        self.put(f"@{self.condition()} bra {otherwise if has_else else join};")
        self.statements(depth)
        if has_else:
            self.put(f"bra {join};", f"{otherwise}:")
            self.statements(depth)
        self.put(f"{join}:")

    def short_circuit(self, depth: int) -> None:
        inside, join = self.label(), self.label()
        if self.draw(st.booleans()):  # a || b
            self.put(f"@{self.condition()} bra {inside};", f"@{self.condition()} bra {join};", f"{inside}:")
        else:  # a && b
            self.put(f"@{self.condition()} bra {join};", f"@{self.condition()} bra {join};")
        self.statements(depth)
        self.put(f"{join}:")

    def switch(self, depth: int) -> None:
        value, join = self.variable(), self.label()
        cases = [self.label() for _ in range(self.draw(st.integers(2, 3)))]
        self.put(f"and.b32 %r11, {value}, 3;")
        for number, label in enumerate(cases):
            self.put(f"setp.eq.u32 %p{PREDICATES}, %r11, {number};", f"@%p{PREDICATES} bra {label};")
        self.put(f"bra {join};")
        for label in cases:
            self.put(f"{label}:")
            self.statements(depth)
            if self.draw(st.booleans()):  # else fall through
                self.put(f"bra {join};")
        self.put(f"{join}:")

    def loop(self, depth: int) -> None:
        """At most three rounds; how many may differ between threads."""
        head, again, out = self.label(), self.label(), self.label()
        counter = f"%c{self.fresh % 64}"
        start = self.pick(*(f"and.b32 {counter}, {v}, 3;" for v in (self.variable(), "%r0", "%r6")))
        self.put(start)
        if self.draw(st.booleans()):  # a guard, as compilers write it
            self.put(f"setp.eq.u32 %p{PREDICATES}, {counter}, 0;", f"@%p{PREDICATES} bra {out};")
        self.put(f"{head}:")
        self.loops.append((again, out))
        self.statements(depth)
        self.loops.pop()
        self.put(f"{again}:", f"add.s32 {counter}, {counter}, -1;")
        self.put(f"setp.gt.s32 %p{PREDICATES}, {counter}, 0;", f"@%p{PREDICATES} bra {head};", f"{out}:")

    def leave_loop(self) -> None:
        if self.loops:
            self.put(f"@{self.condition()} bra {self.pick(*self.draw(st.sampled_from(self.loops)))};")
        else:
            self.assign()

    def leave(self) -> None:
        self.put(f"@{self.condition()} {self.pick('bra $DONE', 'ret')};")
