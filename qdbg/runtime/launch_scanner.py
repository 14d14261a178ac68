"""Reads the text of a launch statement from left to right: numbers, dimensions and arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qdbg.runtime.values import DTYPES, LONGEST, NUMBER, ArraySpec, Scalar, integer

Dim3 = tuple[int, int, int]

NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_SPACE = re.compile(r"\s*")
#: Largest grid and block a CUDA device of compute capability 7.5 accepts, x, y, z.
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)


class LaunchError(Exception):
    """A launch that cannot be read or carried out; `str()` is one sentence naming place, cause and cure."""

    def __init__(self, origin: str, message: str):
        super().__init__(f"{origin}: {message}")
        self.origin, self.message = origin, message


def dim3(sizes: Sequence[int], what: str, origin: str) -> Dim3:
    """Grid or block dimensions of one to three sizes, checked against what CUDA allows."""
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(origin, f"{what} has {len(sizes)} dimensions; give one to three")
    limits = _GRID_LIMITS if what == "grid" else _BLOCK_LIMITS
    x, y, z = (*sizes, 1, 1)[:3]
    for axis, size, limit in zip("xyz", (x, y, z), limits, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(origin, f"{what} size {size} along {axis} is outside 1 to {limit}")
    if what == "block" and x * y * z > 1024:
        raise LaunchError(origin, f"a block has at most 1024 threads, not {x * y * z}; launch more blocks")
    return x, y, z


class Scanner:
    """Reads one statement from left to right; every error names the statement's place.

    `what` says what is being read: a comment, or an option's value.
    """

    def __init__(self, text: str, origin: str, what: str = "comment"):
        self.text, self.origin, self.what, self.position = text, origin, what, 0

    def fail(self, message: str) -> LaunchError:
        """An error at the statement's place, to be raised."""
        return LaunchError(self.origin, message)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """What `pattern` matches next, white space skipped; None if nothing."""
        self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
        found = pattern.match(self.text, self.position)
        if found is None or not found.group():
            return None
        self.position = found.end()
        return found.group()

    def accept(self, token: str) -> bool:
        """Reads `token` if it comes next."""
        return self.match(re.compile(re.escape(token))) is not None

    def expect(self, token: str, where: str) -> None:
        """Reads `token`, which must come next."""
        if not self.accept(token):
            raise self.fail(f"expected `{token}` {where}, found {self.rest()}")

    def need(self, pattern: re.Pattern[str], what: str) -> str:
        """What `pattern` matches next, which must be something."""
        found = self.match(pattern)
        if found is None:
            raise self.fail(f"expected {what}, found {self.rest()}")
        return found

    def rest(self) -> str:
        """The beginning of what is left, for messages."""
        rest = self.text[self.position :].strip()
        return f"`{rest[:24]}`" if rest else f"the end of the {self.what}"

    def finish(self) -> None:
        """Nothing may be left."""
        if self.text[self.position :].strip():
            raise self.fail(f"{self.rest()} after the end of the {self.what}; remove it")

    def whole(self) -> int:
        """Reads an integer."""
        try:
            return integer(self.need(NUMBER, "a number"))
        except ValueError as error:
            raise self.fail(str(error)) from None

    def dimensions(self, what: str) -> Dim3:
        """Reads `4`, `(4, 2)` or `dim3(4, 2)`."""
        named = self.accept("dim3")
        if not named and not self.text[self.position :].lstrip().startswith("("):
            return dim3([self.whole()], what, self.origin)
        self.expect("(", f"before the {what} dimensions")
        sizes = [self.whole()]
        while self.accept(","):
            sizes.append(self.whole())
        self.expect(")", f"after the {what} dimensions")
        return dim3(sizes, what, self.origin)

    def value(self, lone_is_length: bool) -> Scalar | ArraySpec:
        """Reads a number or an array; `lone_is_length` says what `i32[16]` means."""
        number = self.match(NUMBER)
        if number is not None:
            return Scalar(number)
        type_name = self.need(NAME, "a number or an array such as `i32[1, 2, 3]`")
        if type_name not in DTYPES:
            raise self.fail(f"{type_name} is not an array type; the types are {', '.join(DTYPES)}")
        return self._array(type_name, lone_is_length)

    def _array(self, type_name: str, lone_is_length: bool) -> ArraySpec:
        self.expect("[", f"after {type_name}")
        literals: list[str] = []
        comma = False
        while not self.accept("]"):
            if literals and not comma:
                raise self.fail(f"expected `,` or `]` in {type_name}[...], found {self.rest()}")
            literals.append(self.need(NUMBER, f"a number or `]` in {type_name}[...]"))
            comma = self.accept(",")
        if self.text[self.position :].lstrip().startswith("=") and not comma and len(literals) < 2:
            self.expect("=", "")
            return self._filled(type_name, self._length(literals[0]) if literals else None)
        if lone_is_length and len(literals) == 1 and not comma:
            return ArraySpec(type_name, self._length(literals[0]), fill="0")
        if not literals:
            raise self.fail(f"{type_name}[] is empty; write {type_name}[N] or {type_name}[] = @file.npy")
        return ArraySpec(type_name, len(literals), literals=tuple(literals))

    def _length(self, text: str) -> int:
        try:
            length = integer(text)
        except ValueError:
            raise self.fail(
                f"[{text}] is a length and must be an integer; write [{text},] for one value"
            ) from None
        if not 0 < length <= LONGEST:
            raise self.fail(f"an array has 1 to {LONGEST} elements, not {length}")
        return length

    def _filled(self, type_name: str, length: int | None) -> ArraySpec:
        path = self.match(re.compile(r"@[^\s,()]+"))
        if path is not None:
            return ArraySpec(type_name, length, fill=path)
        if length is None:
            raise self.fail(f"{type_name}[] needs a length unless a file follows: {type_name}[] = @file.npy")
        if self.accept("iota"):
            return ArraySpec(type_name, length, fill="iota")
        if self.accept("random"):
            self.expect("(", "after random")
            arguments = [self.need(NUMBER, "a seed")]
            while self.accept(","):
                arguments.append(self.need(NUMBER, "a bound"))
            self.expect(")", "after random's seed")
            if len(arguments) not in (1, 3):
                raise self.fail(
                    "random takes a seed, or a seed and two bounds: random(1) or random(1, 0, 10)"
                )
            return ArraySpec(type_name, length, fill="random", arguments=tuple(arguments))
        return ArraySpec(
            type_name, length, fill=self.need(NUMBER, "iota, random(SEED), @file.npy or a number")
        )
