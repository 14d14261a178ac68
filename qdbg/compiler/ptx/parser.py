"""PTX text to `ir.Module` (PTX ISA sections 4, 5, 7 and 11), as NVRTC, nvcc, clang and people write it.

- Names are unique inside a function: one that a nested scope declares again becomes `name#1`.
- The table of a `brx.idx` is a Vector of Labels in the instruction itself, of a `call` a Vector of Symbols.
- `.loc` with line 0 gives `location` None; of an inlined call it is the innermost line.
- A lone `_` operand is an empty Pair.
- A function that is declared and never defined has no instructions and the directive `external`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .ir import Function, Module, PtxError, Symbol, Variable
from .lexer import Cursor, Token
from .parser_body import Body
from .parser_operands import Scope
from .parser_variables import parameters, space, variables

_LINKING = (".visible", ".extern", ".weak", ".common", ".hidden")
_FUNCTION_DIRECTIVES = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".maxclusterrank",
    ".reqnctapercluster", ".explicitcluster", ".blocksareclusters", ".abi_preserve", ".abi_preserve_control",
    ".unique",
}  # fmt: skip


def parse(text: str, path: str = "<ptx>") -> Module:
    """Reads a whole PTX file.

    Raises:
        PtxError: for anything that is not PTX as described above, with line and text; for a file that
            ends too early it says what was being read.
    """
    try:
        return _Parser(text, path).module()
    except RecursionError:
        raise PtxError(path, 1, "brackets are nested too deeply") from None


class _Parser:
    def __init__(self, text: str, path: str):
        self.cursor = Cursor(text, path)
        self.scope = Scope()
        self.version = self.target = ""
        self.address_size = 64
        self.files: dict[int, str] = {}
        self.variables: list[Variable] = []
        self.functions: dict[str, Function] = {}
        self.shared_names: set[str] = set()

    def module(self) -> Module:
        cursor = self.cursor
        while cursor.token.kind != "end":
            if not self.version and not cursor.at(".version"):
                raise cursor.error("a PTX file begins with .version, e.g. .version 8.0")
            self._item()
        if not self.version:
            raise cursor.error("")
        self._check_relocations()
        return Module(
            path=cursor.path,
            version=self.version,
            target=self.target,
            address_size=self.address_size,
            files=self.files,
            variables=tuple(self.variables),
            functions=tuple(self.functions.values()),
            lines=tuple(cursor.text.removesuffix("\n").split("\n")),
        )

    def _item(self) -> None:
        """Reads one directive at module scope."""
        cursor = self.cursor
        linking = set()
        while cursor.token.text in _LINKING:
            linking.add(cursor.take().text)
        token = cursor.token
        if (where := space(cursor)) is not None:
            if where in ("reg", "local", "param"):
                raise cursor.error(f".{where} stands only inside a function", token)
            for variable in variables(cursor, where, ".extern" in linking):
                self._declare(variable)
            return
        cursor.take()
        if token.text in (".entry", ".func"):
            self._function(token, ".extern" in linking)
        elif token.text == ".version":
            self.version = self._version()
        elif token.text == ".target":
            self.target = self._target()
        elif token.text == ".address_size":
            size = cursor.token
            self.address_size = cursor.integer("an address size")
            if self.address_size != 64:
                message = f".address_size {size.text} is not supported: qdbg runs 64-bit PTX only"
                raise PtxError(cursor.path, size.line, f"{message}; compile with -m64")
        elif token.text == ".file":
            self._file()
        elif token.text == ".section":
            with cursor.reading(f"the section that begins at line {token.line}"):
                cursor.skip_block("}")
        elif token.text == ".pragma":
            cursor.skip_block(";")
        elif token.text == ".alias":
            self._alias()
        else:
            raise cursor.error("unknown directive", token)

    def _version(self) -> str:
        """Reads `8.0`."""
        token = self.cursor.token
        if re.fullmatch(r"[1-9]\.\d", token.text) is None:
            raise self.cursor.error("expected a PTX version such as 8.0")
        return self.cursor.take().text

    def _target(self) -> str:
        """Reads `sm_75, debug` and returns the architecture."""
        if re.fullmatch(r"sm_\d\d+[af]?", self.cursor.token.text) is None:
            raise self.cursor.error("expected a target such as sm_75")
        target = self.cursor.name("a target").text
        while self.cursor.accept(","):
            self.cursor.name("a target option")
        return target

    def _file(self) -> None:
        """Reads `1 "path", timestamp, size`."""
        cursor = self.cursor
        number = cursor.integer("a file number")
        if cursor.token.kind != "string":
            raise cursor.error("expected the path of a file in quotes")
        self.files[number] = cursor.take().text[1:-1]
        while cursor.accept(","):
            cursor.integer("a time stamp or size", 1 << 64)

    def _alias(self) -> None:
        """Reads `.alias new, old;` (PTX ISA 11.6)."""
        cursor = self.cursor
        new = cursor.name("a function")
        cursor.expect(",")
        old = cursor.name("a function")
        cursor.expect(";")
        if old.text not in self.functions:
            raise cursor.error("the function is not declared", old)
        self.functions[new.text] = replace(self.functions[old.text], name=new.text)

    def _declare(self, variable: Variable) -> None:
        """Adds a variable of the module; one declared .extern may follow or precede its definition."""
        known = next((one for one in self.variables if one.name == variable.name), None)
        if known is not None and not (known.external or variable.external):
            raise PtxError(self.cursor.path, variable.line, f"{variable.name} is declared twice")
        if known is not None and not known.external:
            return
        if known is not None:
            self.variables.remove(known)
        self.variables.append(variable)
        self.scope.names[variable.name] = Symbol(variable.name)
        if variable.element is not None:
            self.scope.elements[variable.name] = variable.element

    def _function(self, opening: Token, external: bool) -> None:
        cursor = self.cursor
        kind = opening.text
        returns = parameters(cursor, f"a {kind}") if kind == ".func" and cursor.at("(") else ()
        name = cursor.name(f"a {kind}").text
        given = parameters(cursor, f"{kind} {name}") if cursor.at("(") else ()
        self.scope.names[name] = Symbol(name)
        body = Body(cursor, self.scope, f"{kind} {name}", self.shared_names)
        directives: dict[str, tuple[int, ...]] = {}
        with cursor.reading(f"{kind} {name}"):
            while (token := cursor.token).kind == "dot":
                cursor.take()
                if token.text == ".pragma":
                    cursor.skip_block(";")
                elif token.text in _FUNCTION_DIRECTIVES:
                    is_value = cursor.token.kind == "number"
                    directives[token.text[1:]] = cursor.integers("a value") if is_value else ()
                elif token.text == ".attribute":
                    cursor.skip_block(")")
                else:
                    raise cursor.error("unknown directive of a function", token)
            declared = cursor.accept(";")
            if not declared:
                body.declare_parameters((*returns, *given))
                body.read()
        known = self.functions.get(name)
        if known is not None and "external" not in known.directives:
            if declared:
                return
            raise PtxError(cursor.path, opening.line, f"{kind} {name} is defined twice")
        if declared:
            directives["external"] = ()
        self.functions.pop(name, None)
        self.functions[name] = Function(
            name=name,
            is_entry=kind == ".entry",
            parameters=given,
            returns=returns,
            registers=body.registers,
            variables=tuple(body.variables),
            body=tuple(body.instructions),
            labels=body.labels,
            line=opening.line,
            directives=directives | body.notes,
        )

    def _check_relocations(self) -> None:
        """Every address in an initialiser must be one of this module."""
        for variable in self.variables:
            for relocation in variable.relocations:
                if relocation.symbol not in self.scope.names:
                    message = (
                        f"the initialiser of {variable.name} names {relocation.symbol}, which is not declared"
                    )
                    raise PtxError(self.cursor.path, variable.line, message)
