"""Function bodies: declarations, labels, instructions and nested scopes (PTX ISA sections 4.3 and 9)."""

from __future__ import annotations

from dataclasses import replace

from .ir import (
    Arguments,
    Guard,
    Instruction,
    Label,
    Operand,
    PtxError,
    Register,
    SourceLocation,
    Space,
    Symbol,
    Variable,
    Vector,
)
from .lexer import Cursor, Token
from .parser_checks import complaint
from .parser_constants import FloatKind
from .parser_operands import Scope, operands, register, solid
from .parser_variables import form, space, variables

#: One declaration `.reg .b32 %r<N>` of more registers than this is a mistake.
_MAXIMUM_REGISTERS = 1 << 20


class Body:
    """What the parser knows of the function that it is reading.

    A name that is declared twice, in two nested scopes, is kept apart as `name#1`, `name#2`, ...,
    which no PTX identifier can be.
    """

    def __init__(self, cursor: Cursor, module: Scope, function: str, shared_names: set[str]):
        self.cursor, self.function = cursor, function
        self.scope = Scope(module)
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.notes: dict[str, tuple[int, ...]] = {}
        self._parameter_sizes: dict[str, int] = {}
        self._location: SourceLocation | None = None
        self._register_names: set[str] = set()
        self._variable_names = set(module.names)
        self._shared_names = shared_names
        self._label_names: set[str] = set()
        self._pending: list[tuple[int, Scope, Token]] = []
        self._tables: list[tuple[Scope, str, tuple[Token, ...]]] = []

    # -- declarations -------------------------------------------------------------------------------

    def declare_parameters(self, parameters: tuple[Variable, ...]) -> None:
        """Makes parameters known in the function's outermost scope."""
        for parameter in parameters:
            if parameter.space == "reg":
                self._declare(parameter.name, Register(parameter.name), parameter.line)
                self.registers[parameter.name] = parameter.type
                self._register_names.add(parameter.name)
            else:
                self._declare(parameter.name, Symbol(parameter.name), parameter.line)
                if parameter.element is not None:
                    self.scope.elements[parameter.name] = parameter.element
                self._variable_names.add(parameter.name)
                self._parameter_sizes[parameter.name] = parameter.size

    def _declare(self, name: str, meaning: Register | Symbol | Vector, line: int) -> None:
        if name in self.scope.names:
            raise self._error(line, f"{name} is declared twice in {self.function}")
        self.scope.names[name] = meaning

    def _unique(self, name: str, taken: set[str]) -> str:
        candidate, number = name, 0
        while candidate in taken:
            number += 1
            candidate = f"{name}#{number}"
        taken.add(candidate)
        return candidate

    def _registers(self) -> None:
        """Reads what follows `.reg`: `.b32 %r<10>, %a, %b;`"""
        element = form(self.cursor)
        while True:
            token = self.cursor.name("a register")
            names = [token.text]
            if self.cursor.accept("<"):
                count = self.cursor.integer("a number of registers", _MAXIMUM_REGISTERS)
                names = [f"{token.text}{number}" for number in range(count)]
                self.cursor.expect(">")
            for name in names:
                self._register(name, element.type, element.vector, token.line)
            if not self.cursor.accept(","):
                break
        self.cursor.expect(";")

    def _register(self, name: str, type: str, vector: int, line: int) -> None:
        unique = self._unique(name, self._register_names)
        parts = [unique] if vector == 1 else [f"{unique}.{part}" for part in "xyzw"[:vector]]
        found = tuple(Register(part) for part in parts)
        self._declare(name, found[0] if vector == 1 else Vector(found), line)
        self.registers.update(dict.fromkeys(parts, type))

    def _variables(self, where: Space, external: bool = False) -> None:
        for variable in variables(self.cursor, where, external):
            unique = self._unique(variable.name, self._variable_names)
            if where not in ("param", "local"):  # the host sees these: unique in the whole module
                unique = self._unique(unique, self._shared_names)
            self._declare(variable.name, Symbol(unique), variable.line)
            if variable.element is not None:
                self.scope.elements[unique] = variable.element
            self.variables.append(replace(variable, name=unique))
            if where == "param":
                self._parameter_sizes[unique] = variable.size

    # -- statements ---------------------------------------------------------------------------------

    def read(self) -> None:
        """Reads statements up to the `}` that closes the body, then resolves labels."""
        opening = self.cursor.expect("{")
        outermost = self.scope
        with self.cursor.reading(f"the body of {self.function}, which begins at line {opening.line}"):
            while True:
                if self.cursor.accept("{"):
                    self.scope = Scope(self.scope)
                elif self.cursor.accept("}"):
                    if self.scope is outermost:
                        break
                    assert self.scope.parent is not None
                    self.scope = self.scope.parent
                else:
                    self._statement()
        self._resolve()
        self._check()

    def _statement(self) -> None:
        token = self.cursor.token
        if token.kind == "dot":
            self._directive(token)
        elif token.text == "@" or token.kind != "word":
            self._instruction()
        elif self.cursor.tokens[self.cursor.position + 1].text == ":":
            self._label()
        else:
            self._instruction()

    def _directive(self, token: Token) -> None:
        cursor = self.cursor
        if token.text == ".extern":
            cursor.take()
            where = space(cursor)
            if where is None:
                raise cursor.error("expected a state space such as .shared")
            self._variables(where, external=True)
        elif (where := space(cursor)) == "reg":
            self._registers()
        elif where is not None:
            self._variables(where)
        elif token.text == ".loc":
            self._location = location(cursor)
        elif token.text == ".pragma":
            cursor.skip_block(";")
        elif token.text in (".maxnreg", ".minnctapersm"):
            cursor.take()
            self.notes[token.text[1:]] = cursor.integers("a value")
        else:
            raise cursor.error("unknown directive in a function body")

    def _label(self) -> None:
        cursor = self.cursor
        token = cursor.take()
        cursor.expect(":")
        if token.text in self.scope.labels:
            raise self._error(token.line, f"the label {token.text} stands twice in {self.function}")
        unique = self._unique(token.text, self._label_names)
        if cursor.at(".callprototype"):
            cursor.skip_block(";")
            self.scope.labels[token.text] = Label(unique)
        elif cursor.at(".branchtargets") or cursor.at(".calltargets"):
            cursor.take()
            targets = [cursor.name("a target")]
            while cursor.accept(","):
                targets.append(cursor.name("a target"))
            cursor.expect(";")
            self.scope.labels[token.text] = Vector(())
            self._tables.append((self.scope, token.text, tuple(targets)))
        else:
            self.scope.labels[token.text] = Label(unique)
            self.labels[unique] = len(self.instructions)

    def _instruction(self) -> None:
        cursor = self.cursor
        first = cursor.token
        guard: Guard | None = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            guard = Guard(register(cursor, self.scope).name, negated)
        opcode = cursor.name("an instruction")
        with cursor.reading(f"the instruction {opcode.text} in the body of {self.function}"):
            modifiers: list[str] = []
            while cursor.token.kind == "dot":
                modifiers.append(cursor.take().text[1:])
            decimal = _decimal(modifiers)
            found = solid(operands(cursor, self.scope, ";", decimal, opcode.text))
        index = len(self.instructions)
        text = cursor.source(first, cursor.tokens[cursor.position - 1])
        self.instructions.append(
            Instruction(index, first.line, text, opcode.text, tuple(modifiers), found, guard, self._location)
        )
        if any(_has_label(one) for one in found) or opcode.text in ("bra", "brx"):
            self._pending.append((index, self.scope, opcode))

    # -- labels -------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Gives every label operand its target, now that all labels are known."""
        for scope, name, targets in self._tables:
            scope.labels[name] = Vector(tuple(self._target(scope, target) for target in targets))
        for index, scope, token in self._pending:
            instruction = self.instructions[index]
            found = tuple(self._resolved(one, scope, instruction) for one in instruction.operands)
            if instruction.opcode == "bra" and not (len(found) == 1 and self._is_target(found[0])):
                raise self._error(
                    token.line, f"{instruction.text} does not name one label of {self.function}"
                )
            if instruction.opcode == "brx" and not (
                len(found) == 2
                and isinstance(found[0], Register)
                and isinstance(found[1], Vector)
                and found[1].elements
                and all(self._is_target(one) for one in found[1].elements)
            ):
                raise self._error(token.line, f"{instruction.text} needs a register and a table of labels")
            self.instructions[index] = replace(instruction, operands=found)

    def _check(self) -> None:
        """Fails for the first instruction whose operands are none of its opcode's."""
        for instruction in self.instructions:
            cause = complaint(instruction, self._parameter_sizes)
            if cause is not None:
                raise self._error(instruction.line, f"`{instruction.text}` {cause}")

    def _is_target(self, found: Operand | None) -> bool:
        return isinstance(found, Label) and found.name in self.labels

    def _target(self, scope: Scope, token: Token) -> Label | Symbol:
        label, name = scope.find_label(token.text), scope.find(token.text)
        found = label if isinstance(label, Label) else name
        if not isinstance(found, Label | Symbol):
            raise self._error(token.line, f"{token.text} is neither a label nor a function")
        return found

    def _resolved(self, found: Operand, scope: Scope, instruction: Instruction) -> Operand:
        if isinstance(found, Arguments):
            return Arguments(tuple(self._resolved(one, scope, instruction) for one in found.elements))
        if isinstance(found, Vector):
            parts = [one and self._resolved(one, scope, instruction) for one in found.elements]
            return Vector(tuple(parts))
        if not isinstance(found, Label):
            return found
        label = scope.find_label(found.name)
        if label is None or instruction.opcode not in ("bra", "brx", "call"):
            raise self._error(instruction.line, f"{found.name} is not declared, in {instruction.text!r}")
        return label

    def _error(self, line: int, message: str) -> PtxError:
        return PtxError(self.cursor.path, line, message)


def location(cursor: Cursor) -> SourceLocation | None:
    """Reads `.loc file line column, function_name label+offset, inlined_at file line column`.

    The innermost line is kept; line 0 means that the instruction belongs to no source line.
    """
    cursor.take()
    file, line, _column = (cursor.integer("a number of a .loc") for _ in range(3))
    while cursor.accept(","):
        word = cursor.take()
        if word.text == "function_name":
            cursor.name("a function")
            if cursor.accept("+"):
                cursor.integer("an offset")
        elif word.text == "inlined_at":
            for _ in range(3):
                cursor.integer("a number of inlined_at")
        else:
            raise cursor.error("expected function_name or inlined_at", word)
    return SourceLocation(file, line) if line else None


def _has_label(found: Operand | None) -> bool:
    if isinstance(found, Vector | Arguments):
        return any(_has_label(one) for one in found.elements)
    return isinstance(found, Label)


def _decimal(modifiers: list[str]) -> FloatKind:
    """A decimal float is a double, rounded to single where the last float type is .f32."""
    floats = [one for one in modifiers if one in ("f32", "f64")]
    return "f32bits" if floats[-1:] == ["f32"] else "f64bits"
