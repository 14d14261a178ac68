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

from qdbg.runtime.launch_scanner import NAME, Dim3, LaunchError, Scanner, dim3
from qdbg.runtime.values import ArrayData, ArraySpec, Scalar

_T = TypeVar("_T")

_COMMENT = re.compile(r"^\s*//\s*qdbg:(.*)$")
#: A name, perhaps with template arguments: `ns::k`, `k<int, 3>`.
_KERNEL = re.compile(r"[^\s(<]+(?:\s*<(?!<).*?>)?(?=\s*<<<)")
_LINE_END = re.compile(r"\r\n?|\n")
_KEYWORD = re.compile(r"\s*(launch|expect)\b")


@dataclass(frozen=True, slots=True)
class Argument:
    """`name = value`, or a value alone (`name` None).  `origin` is `file:line` or `--arg name`."""

    name: str | None
    value: Scalar | ArraySpec | ArrayData
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


def parse_launches(text: str, path: str = "<source>") -> tuple[Launch, ...]:
    """Every launch that the comments of `text` offer, in order, with its expectations."""
    launches: list[Launch] = []
    for statement, origin in _statements(text, path):
        keyword = _KEYWORD.match(statement)
        if keyword is None:
            word = statement.split()[0] if statement.split() else "nothing"
            raise LaunchError(origin, f"`// qdbg:` is followed by {word}; it takes `launch` or `expect`")
        scanner = Scanner(statement, origin)
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
    for number, line in enumerate(_LINE_END.split(text), 1):
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


def _launch(scanner: Scanner) -> Launch:
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


def _argument(scanner: Scanner) -> Argument:
    named = scanner.match(re.compile(NAME.pattern + r"(?=\s*=)"))
    if named is not None:
        scanner.expect("=", "after the argument's name")
    return Argument(named, scanner.value(lone_is_length=True), scanner.origin)


def _expectation(scanner: Scanner) -> ExpectSpec:
    name = scanner.need(NAME, "the name of an array after expect")
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

    Sizes may stand in brackets.  An argument replaces the one of the same name or is added.  A changed
    launch keeps no expectations: they were written for other numbers.
    """

    def sizes(text: str, what: str) -> Dim3:
        option = f"--{what} {text}"
        in_brackets = text.lstrip().startswith(("(", "dim3"))
        if in_brackets:
            return _entire(option, text, lambda s: s.dimensions(what))
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


def _list(scanner: Scanner) -> list[int]:
    sizes = [scanner.whole()]
    while scanner.accept(","):
        sizes.append(scanner.whole())
    return sizes


def _entire(origin: str, text: str, read: Callable[[Scanner], _T]) -> _T:
    scanner = Scanner(text, origin, "value")
    result = read(scanner)
    scanner.finish()
    return result
