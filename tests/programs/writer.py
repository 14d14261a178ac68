"""Statements of a random kernel, and the structured control flow around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from programs import atomics, barriers, integers, spaces, waits, warps
from programs.sizes import CONSTANTS, INPUTS, OWN, PREDICATES, VARIABLES

_BINARY = (
    "add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32",
    "min.s32", "min.u32", "max.s32", "max.u32", "add.u32",
)  # fmt: skip
_UNARY = ("not.b32", "neg.s32", "abs.s32", "mov.u32", "cnot.b32")
_COMPARE = tuple(f"{c}.{t}" for c in ("eq", "ne", "lt", "le", "gt", "ge") for t in ("s32", "u32"))
_CONVERSIONS = ("cvt.s32.s8", "cvt.u32.u8", "cvt.s32.s16", "cvt.u32.u16", "cvt.u32.s16")


@dataclass
class Writer:
    """Draws statements and writes them as PTX.

    budget: statements that are left to draw; threads: of a block; also: which of `FEATURES` to draw from;
    memory: whether the global arrays are there; loops: the labels of the loops around, inner last; functions:
    what may be called; chains: how many there are in which threads wait for each other, see `waits`.
    """

    draw: st.DrawFn
    budget: int
    threads: int
    also: frozenset[str] = frozenset()
    memory: bool = True
    lines: list[str] = field(default_factory=list)
    loops: list[tuple[str, str]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    chains: int = 0
    fresh: int = 0

    def label(self) -> str:
        self.fresh += 1
        return f"$L{self.fresh}"

    def put(self, *lines: str) -> None:
        self.lines += lines

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def below(self, limit: int) -> int:
        return self.draw(st.integers(0, limit - 1))

    def variable(self) -> str:
        return f"%v{self.below(VARIABLES)}"

    def source(self) -> str:
        """A variable, something uniform, or a constant."""
        constant = str(self.draw(st.sampled_from(CONSTANTS)))
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
            if top:
                self.together()

    def together(self) -> None:
        """Perhaps something that all threads of the block meet at."""
        kinds: list[Callable[[Writer], list[str]]] = [lambda _: ["bar.sync 0;"]]
        kinds += [spaces.together] * ("spaces" in self.also)
        kinds += [barriers.together] * ("barriers" in self.also)
        kinds += [warps.together, warps.apart] * ("warps" in self.also)
        kinds += [waits.together] * ("waits" in self.also)
        if self.below(2 if len(kinds) > 1 else 6) == 0:
            self.put(*self.draw(st.sampled_from(kinds))(self))

    def statement(self, depth: int) -> None:
        simple = [self.assign, self.assign, self.compare]
        if self.memory:
            simple += [self.load, self.store, self.guarded]
        if self.functions:
            simple.append(self.call)
        parts = {"spaces": spaces.statement, "atomics": atomics.statement, "waits": waits.statement}
        for name, part in parts.items():
            if name in self.also:
                simple.append(lambda part=part: self.put(*part(self)))  # type: ignore[misc]
        nested = (self.branch, self.branch, self.loop, self.short_circuit, self.switch)
        # Nobody leaves where lanes still have to meet.
        alone = not self.also & {"warps", "barriers", "waits"}
        leaving = (self.leave_loop, *[self.leave] * alone) if depth < 3 else ()
        kind = self.draw(st.sampled_from((*simple, *(nested if depth else ()), *leaving)))
        if kind in nested:
            kind(depth - 1)
        else:
            kind()

    def assign(self) -> None:
        if "integers" in self.also and self.draw(st.booleans()):
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
        return integers.statement(self.draw, self.variable, self.source, f"%p{PREDICATES}", 4 * VARIABLES)

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
        what = self.pick("op", "store", "setp", *["integer"] * ("integers" in self.also))
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

    def call(self) -> None:
        """Of a function with two parameters, given as constants and registers or as variables."""
        x, y, function = self.variable(), self.source(), self.pick(*self.functions)
        if self.draw(st.booleans()):
            self.put(f"call ({self.variable()}), {function}, ({x}, {y});")
        else:
            self.put("{ .param .b32 a; .param .b32 b; .param .b32 c;", f"st.param.b32 [a], {x};")
            self.put(f"st.param.b32 [b], {y};", f"call.uni (c), {function}, (a, b);")
            self.put(f"ld.param.b32 {self.variable()}, [c]; }}")

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
