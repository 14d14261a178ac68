"""Itanium C++ ABI names as the source has them, as far as kernels need it (`_Z1kIfLi3EEvPT_`: `k<float, 3>`).

A name outside the small grammar here (the ABI's section 5.1, without expressions) is shown as it is, and
template arguments that are not simple as `...`.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip
_NUMBER = re.compile(r"\d+")
_LITERAL = re.compile(r"L([a-z])(n?)(\d+)E")


class _NotSimple(Exception):
    """The name is outside the grammar."""


def display_name(mangled: str) -> str:
    """The plain name of a function, with namespaces and template arguments, without parameters."""
    if not mangled.startswith("_Z"):
        return mangled
    try:
        reader = _Reader(mangled[2:])
        name = reader.nested() if reader.accept("N") else reader.simple()
    except _NotSimple:
        return mangled
    return name


class _Reader:
    def __init__(self, text: str):
        self.text, self.place = text, 0

    def accept(self, what: str) -> bool:
        if self.text.startswith(what, self.place):
            self.place += len(what)
            return True
        return False

    def identifier(self) -> str:
        """Reads `3dot`; an unnamed namespace, or one that the compiler made, is empty."""
        self.accept("L")  # internal linkage
        match = _NUMBER.match(self.text, self.place)
        length = int(match.group()) if match else 0
        if match is None or match.end() + length > len(self.text) or length == 0:
            raise _NotSimple
        self.place = match.end() + length
        name = self.text[match.end() : self.place]
        return "" if name.startswith(("_GLOBAL__N_", "_INTERNAL_")) else name

    def simple(self) -> str:
        """Reads an identifier and its template arguments."""
        name = self.identifier()
        return name + self.arguments() if self.accept("I") else name

    def nested(self) -> str:
        """Reads the rest of `N1n1kE`."""
        parts: list[str] = []
        while self.place < len(self.text) and not self.accept("E"):
            parts.append(self.simple())
        return "::".join(part for part in parts if part)

    def arguments(self) -> str:
        """Reads the rest of `IfLi3EE`."""
        found = []
        try:
            while not self.accept("E"):
                found.append(self.argument())
        except _NotSimple:
            self.place = len(self.text)  # nothing that follows belongs to the name
            return "<...>"
        return f"<{', '.join(found)}>"

    def argument(self) -> str:
        """Reads one template argument: a type or an integer."""
        if match := _LITERAL.match(self.text, self.place):
            self.place = match.end()
            kind, sign, digits = match.groups()
            if kind == "b":
                return "true" if digits == "1" else "false"
            return ("-" if sign else "") + digits
        if self.accept("P"):
            return self.argument() + "*"
        if self.accept("K"):
            return self.argument() + " const"
        if self.accept("N"):
            return self.nested()
        builtin = _BUILTIN.get(self.text[self.place : self.place + 1])
        if builtin is not None:
            self.place += 1
            return builtin
        return self.simple()
