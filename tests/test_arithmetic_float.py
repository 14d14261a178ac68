"""Every float instruction, type and rounding against Fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from arithmetic import Row, binary_of, check, packed, scalar
from reference import MODES, Binary

_ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "rcp": 1, "sqrt": 1}


def arithmetic(opcode: str, binary: Binary, mode: str, *modifiers: str) -> Callable[..., int]:
    """The reference of an instruction with `.ftz`, and one of `.sat` and `.relu`."""
    operation = getattr(binary, "fma" if opcode == "mad" else opcode)

    def expected(*patterns: int) -> int:
        if "ftz" in modifiers:
            patterns = tuple(map(binary.flush, patterns))
        result: int = operation(*patterns, mode)
        if "ftz" in modifiers:
            result = binary.flush(result)
        if "sat" in modifiers:
            return binary.saturate(result)
        return binary.rectify(result) if "relu" in modifiers else result

    return expected


def row(opcode: str, type_name: str, mode: str, *modifiers: str) -> Row:
    """A row of the table; mode "" stands for the default, to nearest."""
    name = ".".join(filter(None, (opcode, mode, *modifiers, type_name)))
    expected = arithmetic(opcode, binary_of(type_name), mode or "rn", *modifiers)
    make = packed if type_name.endswith("x2") else scalar
    return make(name, type_name, _ARITY[opcode], expected)


def single() -> Iterator[Row]:
    for opcode in _ARITY:
        for mode in MODES:
            yield row(opcode, "f32", mode)
            yield row(opcode, "f32", mode, "ftz")
            if opcode in ("add", "sub", "mul", "fma", "mad"):
                yield row(opcode, "f32", mode, "sat")
                yield row(opcode, "f32", mode, "ftz", "sat")
    for opcode in ("add", "sub", "mul"):
        yield row(opcode, "f32", "")
        yield row(opcode, "f32", "", "ftz", "sat")


def double() -> Iterator[Row]:
    for opcode in _ARITY:
        for mode in MODES:
            yield row(opcode, "f64", mode)
    for opcode in ("add", "sub", "mul"):
        yield row(opcode, "f64", "")


def half() -> Iterator[Row]:
    for type_name in ("f16", "f16x2"):
        for opcode in ("add", "sub", "mul", "fma"):
            for mode in ("rn",) if opcode == "fma" else ("", "rn"):
                for ftz in ((), ("ftz",)):
                    yield row(opcode, type_name, mode, *ftz)
                    yield row(opcode, type_name, mode, *ftz, "sat")
        yield row("fma", type_name, "rn", "relu")
        yield row("fma", type_name, "rn", "ftz", "relu")
    for type_name in ("bf16", "bf16x2"):
        for opcode in ("add", "sub", "mul"):
            yield row(opcode, type_name, "")
            yield row(opcode, type_name, "rn")
        yield row("fma", type_name, "rn")
        yield row("fma", type_name, "rn", "relu")


def signs_and_extremes() -> Iterator[Row]:
    for type_name in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        binary = binary_of(type_name)
        make = packed if type_name.endswith("x2") else scalar
        for ftz in ("", ".ftz") if "b" not in type_name and type_name != "f64" else ("",):
            clean = binary.flush if ftz else int

            def quiet(a: int, b: Binary = binary, ftz: str = ftz) -> int:  # as ptxas 13.0 folds it
                return b.flush(a) | (b.is_nan(a) << b.precision - 2) if ftz else a

            yield make(f"neg{ftz}.{type_name}", type_name, 1, lambda a, b=binary, q=quiet: q(a) ^ b.sign)
            yield make(f"abs{ftz}.{type_name}", type_name, 1, lambda a, b=binary, q=quiet: q(a) & ~b.sign)
            for opcode in ("min", "max"):
                yield from extremes(f"{opcode}{ftz}", type_name, make, clean)
    for type_name in ("f32", "f64"):
        sign = binary_of(type_name).sign
        yield scalar(f"copysign.{type_name}", type_name, 2, lambda a, b, s=sign: a & s | b & ~s)


def extremes(
    opcode: str, type_name: str, make: Callable[..., Row], clean: Callable[[int], int]
) -> Iterator[Row]:
    binary, largest = binary_of(type_name), opcode.startswith("max")

    def plain(*patterns: int, propagate: bool = False) -> int:
        result, *rest = map(clean, patterns)
        for other in rest:
            result = binary.extreme(result, other, largest, propagate)
        return result

    def signed(a: int, b: int) -> int:
        result = plain(a & ~binary.sign, b & ~binary.sign)
        return result if binary.is_nan(result) else result | (a ^ b) & binary.sign

    yield make(f"{opcode}.{type_name}", type_name, 2, plain)
    if type_name != "f64":
        yield make(f"{opcode}.NaN.{type_name}", type_name, 2, lambda a, b: plain(a, b, propagate=True))
        yield make(f"{opcode}.xorsign.abs.{type_name}", type_name, 2, signed)
    if type_name == "f32":
        yield make(f"{opcode}.{type_name}", type_name, 3, plain)
        yield make(f"{opcode}.NaN.{type_name}", type_name, 3, lambda *x: plain(*x, propagate=True))
        yield make(
            f"{opcode}.abs.{type_name}", type_name, 3, lambda *x: plain(*(a & ~binary.sign for a in x))
        )


def normal(a: int, binary: Binary) -> bool:
    """Finite and no subnormal: zeros count as normal."""
    return binary.exact(a) is not None and not subnormal(a, binary)


def subnormal(a: int, binary: Binary) -> bool:
    """Smaller than the smallest normal number, and not zero."""
    return 0 < a & ~binary.sign < 1 << (binary.precision - 1)


PROPERTIES: dict[str, Callable[[int, Binary], bool]] = {
    "finite": lambda a, binary: binary.exact(a) is not None,
    "infinite": lambda a, binary: binary.is_infinite(a),
    "number": lambda a, binary: not binary.is_nan(a),
    "notanumber": lambda a, binary: binary.is_nan(a),
    "normal": normal,
    "subnormal": subnormal,
}


def properties() -> Iterator[Row]:
    for type_name in ("f32", "f64"):
        for name, holds in PROPERTIES.items():
            text = f"testp.{name}.{type_name} %p1, {{0}}; selp.u32 {{d}}, 1, 0, %p1"
            yield Row(text, (type_name,), "u32", lambda a, f=holds, t=type_name: int(f(a, binary_of(t))))


@pytest.mark.parametrize(
    "rows", [single, double, half, signs_and_extremes, properties], ids=lambda f: f.__name__
)
def test_against_fractions(rows: Callable[[], Iterator[Row]]) -> None:
    check(rows())
