"""The launch language: what a `// qdbg:` comment in a kernel's file says.

    // qdbg: launch dot<<<1, 4>>>(a = i32[1, 2, 3], b = i32[4, 5, 6],
    // qdbg:                      out = i32[1], n = 3)
    // qdbg: expect out = i32[32]

A statement that leaves a bracket open goes on in the following `// qdbg:` lines.  `expect` belongs to
the launch above it.  In a launch `i32[16]` with one integer is sixteen zeros; in an expectation it is
the one value 16.  `i32[5,]` is one value everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from qdbg.runtime.values import DTYPES, LONGEST, NUMBER, ArraySpec, Scalar, integer

Dim3 = tuple[int, int, int]
_T = TypeVar("_T")

_COMMENT = re.compile(r"^\s*//\s*qdbg:(.*)$")
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_KERNEL = re.compile(r"[^\s(]+?(?=\s*<<<)")
_KEYWORD = re.compile(r"\s*(launch|expect)\b")
#: Largest grid and block a CUDA device of compute capability 7.5 accepts, x, y, z.
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)


class LaunchError(Exception):
    """A launch that cannot be read or carried out; `str()` is one sentence naming place, cause and cure."""

    def __init__(self, origin: str, message: str):
        super().__init__(f"{origin}: {message}")
        self.origin, self.message = origin, message


@dataclass(frozen=True, slots=True)
class Argument:
    """`name = value`, or a value alone (`name` None).  `origin` is `file:line` or `--arg name`."""

    name: str | None
    value: Scalar | ArraySpec
    origin: str


@dataclass(frozen=True, slots=True)
class ExpectSpec:
    """`expect name = array`, or `expect name ~ array ulp n` (`ulp` None means bit for bit)."""

    name: str
    value: ArraySpec
    ulp: int | None
    origin: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch as written.  `kernel` None means the file's only kernel; `shared` is the dynamic bytes.

    `written` is false for the empty launch that stands in where the file offers none.
    """

    kernel: str | None = None
    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (1, 1, 1)
    shared: int = 0
    arguments: tuple[Argument, ...] = ()
    expectations: tuple[ExpectSpec, ...] = ()
    origin: str = "the command line"
    written: bool = True

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


class _Scanner:
    """Reads one statement from left to right; every error names the statement's place."""

    def __init__(self, text: str, origin: str):
        self.text, self.origin, self.position = text, origin, 0

    def fail(self, message: str) -> LaunchError:
        return LaunchError(self.origin, message)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
        found = pattern.match(self.text, self.position)
        if found is None or not found.group():
            return None
        self.position = found.end()
        return found.group()

    def accept(self, token: str) -> bool:
        return self.match(re.compile(re.escape(token))) is not None

    def expect(self, token: str, where: str) -> None:
        if not self.accept(token):
            raise self.fail(f"expected `{token}` {where}, found {self.rest()}")

    def need(self, pattern: re.Pattern[str], what: str) -> str:
        found = self.match(pattern)
        if found is None:
            raise self.fail(f"expected {what}, found {self.rest()}")
        return found

    def rest(self) -> str:
        rest = self.text[self.position :].strip()
        return f"`{rest[:24]}`" if rest else "the end of the comment"

    def finish(self) -> None:
        if self.text[self.position :].strip():
            raise self.fail(f"{self.rest()} after the end of the statement; remove it")

    def whole(self) -> int:
        try:
            return integer(self.need(NUMBER, "a number"))
        except ValueError as error:
            raise self.fail(str(error)) from None

    def dimensions(self, what: str) -> Dim3:
        """`4`, `(4, 2)` or `dim3(4, 2)`."""
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
        number = self.match(NUMBER)
        if number is not None:
            return Scalar(number)
        type_name = self.need(_NAME, "a number or an array such as `i32[1, 2, 3]`")
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


def parse_launches(text: str, path: str = "<source>") -> tuple[Launch, ...]:
    """Every launch that the comments of `text` offer, in order, with its expectations."""
    launches: list[Launch] = []
    for statement, origin in _statements(text, path):
        keyword = _KEYWORD.match(statement)
        if keyword is None:
            word = statement.split()[0] if statement.split() else "nothing"
            raise LaunchError(origin, f"`// qdbg:` is followed by {word}; it takes `launch` or `expect`")
        scanner = _Scanner(statement, origin)
        scanner.position = keyword.end()
        if keyword.group(1) == "launch":
            launches.append(_launch(scanner))
        elif not launches:
            raise LaunchError(origin, "expect comes before any launch; put it below the launch it belongs to")
        else:
            expectations = (*launches[-1].expectations, _expectation(scanner))
            launches[-1] = replace(launches[-1], expectations=expectations)
    return tuple(launches)


def _statements(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Each statement with its place; continuation lines are joined to the line that opened a bracket."""
    pending, origin = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        found = _COMMENT.match(line)
        if found is None:
            continue
        if pending and _KEYWORD.match(found.group(1)):
            break
        origin = origin if pending else f"{path}:{number}"
        pending = f"{pending} {found.group(1)}" if pending else found.group(1)
        if _open_brackets(pending) <= 0:
            yield pending, origin
            pending = ""
    if pending:
        raise LaunchError(origin, "a bracket of this `// qdbg:` statement is never closed; close it")


def _open_brackets(text: str) -> int:
    return sum(text.count(c) for c in "([") - sum(text.count(c) for c in ")]")


def _launch(scanner: _Scanner) -> Launch:
    kernel = scanner.need(_KERNEL, "KERNEL<<<GRID, BLOCK>>>(...)")
    scanner.expect("<<<", "after the kernel's name")
    grid = scanner.dimensions("grid")
    scanner.expect(",", "after the grid")
    block = scanner.dimensions("block")
    shared = scanner.whole() if scanner.accept(",") else 0
    if shared < 0:
        raise scanner.fail(f"{shared} bytes of dynamic shared memory; give 0 or more")
    scanner.expect(">>>", "after grid, block and shared memory")
    scanner.expect("(", "before the arguments")
    arguments: list[Argument] = []
    while not scanner.accept(")"):
        if arguments:
            scanner.expect(",", "between arguments")
        arguments.append(_argument(scanner))
    scanner.finish()
    names = [a.name for a in arguments if a.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise scanner.fail(f"argument {name} is given twice; remove one")
    return Launch(kernel, grid, block, shared, tuple(arguments), (), scanner.origin)


def _argument(scanner: _Scanner) -> Argument:
    named = scanner.match(re.compile(_NAME.pattern + r"(?=\s*=)"))
    if named is not None:
        scanner.expect("=", "after the argument's name")
    return Argument(named, scanner.value(lone_is_length=True), scanner.origin)


def _expectation(scanner: _Scanner) -> ExpectSpec:
    name = scanner.need(_NAME, "the name of an array after expect")
    near = scanner.accept("~")
    if not near:
        scanner.expect("=", f"or `~` after expect {name}")
    value = scanner.value(lone_is_length=False)
    if isinstance(value, Scalar):
        raise scanner.fail(f"expect {name} needs an array; write {name} = i32[{value.text}]")
    ulp = None
    if near:
        scanner.expect("ulp", "after the values of a `~` expectation")
        ulp = scanner.whole()
        if not value.type.startswith("f") or ulp < 0:
            raise scanner.fail(f"expect {name} ~ takes a float array and a distance of 0 or more ulp")
    scanner.finish()
    return ExpectSpec(name, value, ulp, scanner.origin)


def with_overrides(
    launch: Launch,
    kernel: str | None = None,
    grid: str | None = None,
    block: str | None = None,
    shared: int | None = None,
    args: Sequence[tuple[str, str]] = (),
) -> Launch:
    """The launch changed as --kernel, --grid, --block, --shared and --arg say (sizes as `X[,Y[,Z]]`).

    An argument replaces the one of the same name or is added.  A changed launch keeps no expectations:
    they were written for other numbers.
    """

    def sizes(text: str, what: str) -> Dim3:
        option = f"--{what} {text}"
        return _entire(option, text, lambda s: dim3(_list(s), what, option))

    changed = replace(
        launch,
        kernel=kernel or launch.kernel,
        grid=sizes(grid, "grid") if grid is not None else launch.grid,
        block=sizes(block, "block") if block is not None else launch.block,
        shared=shared if shared is not None else launch.shared,
    )
    if changed.shared < 0:
        raise LaunchError(f"--shared {shared}", "a negative number of bytes; give 0 or more")
    arguments = list(launch.arguments)
    for name, text in args:
        value = _entire(f"--arg {name}", text, lambda s: s.value(lone_is_length=True))
        given = Argument(name, value, f"--arg {name}")
        names = [a.name for a in arguments]
        place = names.index(name) if name in names else len(names)
        arguments[place : place + 1] = [given]
    changed = replace(changed, arguments=tuple(arguments))
    return changed if changed == launch else replace(changed, expectations=())


def _list(scanner: _Scanner) -> list[int]:
    sizes = [scanner.whole()]
    while scanner.accept(","):
        sizes.append(scanner.whole())
    return sizes


def _entire(origin: str, text: str, read: Callable[[_Scanner], _T]) -> _T:
    scanner = _Scanner(text, origin)
    result = read(scanner)
    scanner.finish()
    return result
