"""PTX text to tokens, and the cursor that the parser reads them with (PTX ISA section 4, "Syntax").

A dotted name is several tokens: `ld.global.u32` is the word `ld` and the dot words `.global` and
`.u32`, so that opcodes, directives and `%tid.x` are read by one rule.  The lines that a preprocessor leaves
(`# 1 "file"`) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

from .ir import PtxError

Kind = Literal["word", "dot", "number", "string", "mark", "end"]

_TOKEN = re.compile(
    r"""
    (?P<space>  (?: \s+ | //[^\n]* | /\*.*?\*/ | \# [ \t]* (?:line\b)? [ \t]* \d+ [^\n]* )+ )
  | (?P<word>   [A-Za-z_$%][\w$]* )
  | (?P<dot>    (?! \.\d+ (?: [eE][+-]?\d+ )? (?!\w) ) \.\w+ (?: ::\w+ )* )
  | (?P<number> \.\d+(?:[eE][+-]?\d+)?
              | 0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b | 0[xX][0-9a-fA-F]+U?\b | 0[bB][01]+U?\b
              | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+\b | \d+U?\b )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<mark>   << | >> | [<>=!]= | && | \|\| | /(?!\*) | [][(){}<>,;:=@!|+*%&^~?-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Token(NamedTuple):
    """`start` and `end` are offsets into the text; `line` is 1-based."""

    kind: Kind
    text: str
    line: int
    start: int
    end: int


def tokenize(text: str, path: str) -> list[Token]:
    """All tokens, with one of kind `end` at the end.

    Raises:
        PtxError: for characters that begin no token, and for a comment that never ends.
    """
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text.startswith("/*", position):
                raise PtxError(
                    path, line, "the file ends inside the comment that begins here; close it with */"
                )
            rest = text[position:].split(None, 1)[0][:40]
            raise PtxError(path, line, f"{rest!r} is not PTX")
        found = match.group()
        if match.lastgroup == "space":
            line += found.count("\n")
        else:
            tokens.append(Token(cast(Kind, match.lastgroup), found, line, position, match.end()))
        position = match.end()
    tokens.append(Token("end", "", line, position, position))
    return tokens


class Cursor:
    """A position in the tokens of one file, with the errors that are raised there."""

    def __init__(self, text: str, path: str):
        self.text, self.path = text, path
        self.tokens = tokenize(text, path)
        self.position = 0
        self._reading: list[str] = ["the module"]

    @property
    def token(self) -> Token:
        """The next token, not consumed."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Consumes the next token; the end of the file is an error, since every caller wants one more."""
        token = self.token
        if token.kind == "end":
            raise self.error("")
        self.position += 1
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is `text`."""
        return self.token.text == text

    def accept(self, text: str) -> bool:
        """Consumes the next token if it is `text`."""
        if self.token.text != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> Token:
        """Consumes `text`, or fails saying what stands there instead."""
        if self.token.text != text:
            raise self.error(f"expected {text!r}")
        return self.take()

    def name(self, what: str) -> Token:
        """Consumes an identifier; `what` says of what, for the error."""
        if self.token.kind != "word":
            raise self.error(f"expected the name of {what}")
        return self.take()

    def integer(self, what: str, limit: int = 1 << 32) -> int:
        """Consumes an unsigned integer below `limit`."""
        token = self.token
        value = integer_value(token.text) if token.kind == "number" else None
        if value is None:
            raise self.error(f"expected {what}, an integer")
        if value >= limit:
            raise self.error(f"{what} must be below {limit}")
        self.take()
        return value

    def integers(self, what: str) -> tuple[int, ...]:
        """Consumes integers separated by commas."""
        values = [self.integer(what)]
        while self.accept(","):
            values.append(self.integer(what))
        return tuple(values)

    def skip_block(self, closing: str) -> None:
        """Consumes everything up to and including `closing`, where braces nest."""
        depth = 0
        while True:
            text = self.take().text
            depth += (text == "{") - (text == "}")
            if text == closing and depth <= 0:
                return

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Names what is being read, for the error of a file that ends too early."""
        self._reading.append(what)
        yield
        self._reading.pop()

    def error(self, message: str, token: Token | None = None) -> PtxError:
        """The error that `message` holds at `token` (default: the next one)."""
        token = token or self.token
        if token.end == len(self.text):  # nothing follows: perhaps half a token, perhaps the end token
            cause = f"the file ends while reading {self._reading[-1]}"
            return PtxError(self.path, token.line, f"{cause}; it was probably cut short")
        return PtxError(
            self.path, token.line, f"{message}, found {token.text!r} in {self.line_text(token)!r}"
        )

    def line_text(self, token: Token) -> str:
        """The line of the file that holds `token`, shortened to 100 characters."""
        start = self.text.rfind("\n", 0, token.start) + 1
        end = self.text.find("\n", token.start)
        line = self.text[start : end if end >= 0 else len(self.text)].strip()
        return line if len(line) <= 100 else line[:97] + "..."

    def source(self, first: Token, last: Token) -> str:
        """The text from `first` to `last` on one line, without comments."""
        return " ".join(_COMMENT.sub(" ", self.text[first.start : last.end]).split())


def integer_value(text: str) -> int | None:
    """The value of an integer literal (decimal, 0x, 0b, octal with a leading 0, suffix U), else None."""
    digits = text.rstrip("U")
    try:
        if digits[:2] in ("0x", "0X", "0b", "0B"):
            return int(digits, 0)
        return int(digits, 8 if digits.startswith("0") else 10)
    except ValueError:
        return None
