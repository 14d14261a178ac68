"""Approximate instructions: correctly rounded here, with the error that the ISA leaves to hardware."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from arithmetic import Patterns, Row, check, evaluate, instruction_of, operands, packed, scalar
from ptx_runner import interpreter, kernel, source
from reference import BF16, BINARIES, F16, F32, F64, Binary

from qdbg.runtime.interpreter import Interpreter, elementary, error_bound
from qdbg.runtime.interpreter.formats import FORMATS
from qdbg.runtime.interpreter.rounding import narrow, round_to_f32
from qdbg.runtime.launch import bind, launch_for

ONE = 0x3F800000
INFINITY = F32.infinity
MINUS = F32.sign
Real = Callable[[mpmath.mpf], mpmath.mpf]
FUNCTIONS: dict[str, Real] = {
    "ex2": lambda x: mpmath.power(2, x),
    "lg2": lambda x: mpmath.log(x, 2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
}


def exact(function: str, number: Fraction) -> Fraction:
    """The function to 200 bits or more; mpmath takes what it needs for large angles."""
    with mpmath.workprec(420):
        value = FUNCTIONS[function](mpmath.mpf(number.numerator) / number.denominator)
        sign, mantissa, exponent, _ = value._mpf_
    size = Fraction(mantissa) * Fraction(2) ** exponent
    return Fraction(-size if sign else size)


def rounded(function: str, pattern: int, binary: Binary) -> int:
    """The function of a pattern, correctly rounded; corner values as the ISA lists them."""
    zero, negative = pattern & ~binary.sign == 0, binary.negative(pattern)
    one = binary.bias << (binary.precision - 1)
    if binary.is_nan(pattern) or (function == "lg2" and negative and not zero):
        return binary.nan
    if zero:
        return {"ex2": one, "cos": one, "lg2": binary.infinity | binary.sign}.get(function, pattern)
    if binary.is_infinite(pattern):
        return {
            "ex2": 0 if negative else binary.infinity,
            "lg2": binary.infinity,
            "tanh": one | (pattern & binary.sign),
        }.get(function, binary.nan)
    number = binary.value(pattern)
    if function == "ex2" and abs(number) > 2 * binary.bias:
        return 0 if negative else binary.infinity
    if function == "tanh" and abs(number) > 50:
        return one | (pattern & binary.sign)
    return binary.round(exact(function, number), "rn")


def flushed(function: Callable[..., int]) -> Callable[..., int]:
    """A function of f32 with `.ftz`."""
    return lambda *patterns: F32.flush(function(*map(F32.flush, patterns)))


def algebraic() -> Iterator[Row]:
    beyond = Fraction(2) ** 126

    def divide(a: int, b: int) -> int:
        if F32.exact(b) is not None and abs(F32.value(b)) > beyond:
            return F32.mul(a, b & MINUS, "rn")
        return F32.div(a, b, "rn")

    for ftz, wrap in (("", lambda f: f), (".ftz", flushed)):
        yield scalar(f"rcp.approx{ftz}.f32", "f32", 1, wrap(lambda a: F32.rcp(a, "rn")))
        yield scalar(f"sqrt.approx{ftz}.f32", "f32", 1, wrap(lambda a: F32.sqrt(a, "rn")))
        yield scalar(f"rsqrt.approx{ftz}.f32", "f32", 1, wrap(F32.rsqrt))
        yield scalar(f"div.full{ftz}.f32", "f32", 2, wrap(lambda a, b: F32.div(a, b, "rn")))
        yield scalar(f"div.approx{ftz}.f32", "f32", 2, wrap(divide))
    yield scalar("rsqrt.approx.f64", "f64", 1, F64.rsqrt)
    upper = Binary(32, 21, 0x7FFFFFFF)
    for opcode, function in (("rcp", lambda a: upper.rcp(a, "rn")), ("rsqrt", upper.rsqrt)):
        yield scalar(
            f"{opcode}.approx.ftz.f64", "f64", 1,
            lambda a, f=function: upper.flush(f(upper.flush(a >> 32))) << 32,
        )  # fmt: skip


def transcendental() -> Iterator[Row]:
    for name in ("ex2", "lg2", "sin", "cos"):
        for ftz, wrap in (("", lambda f: f), (".ftz", flushed)):
            yield Row(f"{name}.approx{ftz}.f32 {{d}}, {{0}}", ("f32",), "f32",
                      wrap(lambda a, n=name: rounded(n, a, F32)), near_one())  # fmt: skip
    yield Row("tanh.approx.f32 {d}, {0}", ("f32",), "f32", lambda a: rounded("tanh", a, F32), near_one())


def near_one() -> tuple[np.ndarray[tuple[int], np.dtype[np.generic]]]:
    """f32 operands: those of the other tables and numbers of the sizes that these functions are used for."""
    rng = random.Random(9)
    sizes = [rng.uniform(0.001, 100) if n % 2 else rng.uniform(0.9, 1.1) for n in range(600)]
    sizes += [0.5 * n for n in range(1, 320)]
    numbers = np.array([s if n % 3 else -s for n, s in enumerate(sizes)], np.float32)
    return (np.concatenate([operands(("f32",))[0], numbers.view(np.uint32)]),)


def halves() -> Iterator[Row]:
    for name, t, modifier in (
        ("ex2", "f16", ""),
        ("ex2", "bf16", ".ftz"),
        ("tanh", "f16", ""),
        ("tanh", "bf16", ""),
    ):
        binary = BINARIES[t]

        def expected(a: int, name: str = name, binary: Binary = binary, ftz: bool = bool(modifier)) -> int:
            result = rounded(name, binary.flush(a) if ftz else a, binary)
            return binary.flush(result) if ftz else result

        yield scalar(f"{name}.approx{modifier}.{t}", t, 1, expected)
        yield packed(f"{name}.approx{modifier}.{t}x2", f"{t}x2", 1, expected)


@pytest.mark.parametrize("rows", [algebraic, transcendental, halves], ids=lambda f: f.__name__)
def test_correctly_rounded(rows: Callable[[], Iterator[Row]]) -> None:
    check(rows())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_with_integers_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that is taken where a double does not decide: here it is taken always."""
    function = {"ex2": elementary.EXP2, "lg2": elementary.LOG2, "sin": elementary.SIN,
                "cos": elementary.COS, "tanh": elementary.TANH}[name]  # fmt: skip
    monkeypatch.setattr(elementary, "UNCERTAINTY", 0.25)
    patterns = near_one()[0][::5]
    with np.errstate(all="ignore"):
        x = patterns.view(np.float32).astype(np.float64)
        single = elementary.evaluate(
            function, x, FORMATS["f32"], lambda v: round_to_f32(v, "rn").view(np.uint32)
        )
    compare(name, F32, patterns, single)
    for binary, t in ((F16, "f16"), (BF16, "bf16")):
        short = operands((t,))[0][::8]
        narrowed = partial(narrow, format_=FORMATS[t], mode="rn")
        with np.errstate(all="ignore"):
            found = elementary.evaluate(function, FORMATS[t].to_f64(short), FORMATS[t], narrowed)
        compare(name, binary, short, found)


def compare(name: str, binary: Binary, patterns: Patterns, found: Patterns) -> None:
    """Fails where results are not the correctly rounded ones, or NaN for NaN."""
    for pattern, result in zip(patterns.tolist(), found.tolist(), strict=True):
        wanted = rounded(name, pattern, binary)
        if result != wanted and not (binary.is_nan(result) and binary.is_nan(wanted)):
            pytest.fail(f"{name} of {pattern:x} is {wanted:x}, not {result:x}")


# -- the errors that hardware may make --------------------------------------------------------------------


def steps(row: str, pattern: int, count: int, *sources: int) -> bool:
    """Whether an instruction's bound admits a result `count` patterns away from the right one."""
    bound = error_bound(instruction_of(row))
    assert bound is not None
    computed = np.array([pattern], np.uint32).view(np.float32)
    found = np.array([pattern + count], np.uint32).view(np.float32)
    return bool(
        bound.admits(found, computed, *(np.array([s], np.uint32).view(np.float32) for s in sources))[0]
    )


@pytest.mark.parametrize(
    ("instruction", "source", "result", "admitted"),
    [
        ("ex2.approx.f32 %f1, %f2", 0x40490FDB, 0x410D331D, 2),  # 2 ulp
        ("rcp.approx.f32 %f1, %f2", 0x40400000, 0x3EAAAAAB, 1),  # 1 ulp
        ("sqrt.approx.f32 %f1, %f2", 0x40000000, 0x3FB504F3, 1),  # 2^-23 of 1.41 is 1.41 units
        ("rsqrt.approx.f32 %f1, %f2", 0x40000000, 0x3F3504F3, 2),  # 2^-22.9 of 0.71 is 1.51 units
        ("lg2.approx.f32 %f1, %f2", 0x41200000, 0x40549A78, 3),  # 2^-22 of 3.32, in units of 2^-22
        ("lg2.approx.f32 %f1, %f2", 0x3FC00000, 0x3F15C01A, 4),  # 2^-22 in units of 2^-24
        ("tanh.approx.f32 %f1, %f2", 0x3F800000, 0x3F42F7D6, 6239),  # 2^-11 of 0.7616 in units of 2^-24
        ("sin.approx.f32 %f1, %f2", 0x3F800000, 0x3F576AA4, 11),  # 2^-20.5 in units of 2^-24
        ("sin.approx.f32 %f1, %f2", 0x42C80000, 0xBF01A136, 630),  # 2^-14.7 beyond 2 pi
    ],
)  # fmt: skip
def test_bounds_admit_what_the_isa_states(instruction: str, source: int, result: int, admitted: int) -> None:
    """Half a unit more is admitted, since the exact value may be so far from the rounded one."""
    assert all(steps(instruction, result, sign * admitted, source) for sign in (-1, 1))
    assert not any(steps(instruction, result, sign * (admitted + 1), source) for sign in (-1, 1))


def test_corner_values_must_be_met() -> None:
    ex2, rcp = "ex2.approx.f32 %f1, %f2", "rcp.approx.f32 %f1, %f2"
    assert steps(ex2, 0, 0, INFINITY | MINUS)
    assert not steps(ex2, 0, 1, INFINITY | MINUS)
    assert not steps(rcp, INFINITY, -1, 0)
    assert steps(rcp, INFINITY, -1, 1)  # 1 / 2^-149 overflows, which hardware need not see
    assert not steps(rcp, 0, MINUS, INFINITY)  # -0 for +0
    assert steps(ex2, F32.nan, -1, F32.nan)  # another NaN
    assert not steps(ex2, F32.nan, -F32.nan, F32.nan)


def test_division_by_large_and_small_numbers() -> None:
    approximate = "div.approx.f32 %f1, %f2, %f3"
    assert steps(approximate, ONE, 2, ONE, ONE)
    assert not steps(approximate, ONE, 3, ONE, ONE)
    assert not steps(approximate, 0, 1, ONE, 0x7F000000)  # |b| above 2^126 gives exactly zero
    assert steps(approximate, ONE, 99, 1, 1)  # nothing is stated for a subnormal divisor
    assert not steps("div.full.f32 %f1, %f2, %f3", ONE, 3, 1, 1)


def test_only_approximate_instructions_have_a_bound() -> None:
    assert error_bound(instruction_of("rcp.rn.f32 %f1, %f2")) is None
    assert error_bound(instruction_of("add.f32 %f1, %f2, %f3")) is None
    assert error_bound(instruction_of("mov.u32 %r1, %r2")) is None
    assert error_bound(instruction_of("ex2.rn.f32 %f1, %f2")) is None  # no instruction at all
    statement = {
        "ex2.approx.ftz.f32 %f1, %f2": "2 ulp",
        "rsqrt.approx.f32 %f1, %f2": "relative error 2^-22.9",
        "tanh.approx.f16 %h1, %h2": "absolute error 2^-10.987",
        "ex2.approx.ftz.bf16x2 %r1, %r2": "relative error 2^-7",
    }
    for text, words in statement.items():
        bound = error_bound(instruction_of(text))
        assert bound is not None
        assert bound.statement == words


def test_events_carry_the_bound() -> None:
    machine = interpreter(kernel("ex2.approx.f32 %f1, %f2; add.f32 %f1, %f1, %f1; ret;", "out = u32[1]"))
    events = [machine.step(), machine.step()]
    assert [event.error.statement if event and event.error else None for event in events] == ["2 ulp", None]


def test_expectations_of_a_launch_allow_a_distance() -> None:
    """2^3.1415927 is 8.8249784, and 8.8249807 two f32 above the nearest one."""
    text = kernel(
        "ex2.approx.f32 %f1, 0f40490FDB; ld.param.u64 %d1, [out]; st.global.f32 [%d1], %f1; ret;",
        "out = f32[1]",
    )
    expectations = "// qdbg: expect out ~ f32[8.8249807] ulp {}\n"
    wrong = []
    for distance in (2, 1):
        launch, rest = text.split("\n", 1)
        loaded = source(f"{launch}\n{expectations.format(distance)}{rest}")
        bound = bind(loaded, launch_for(loaded))
        machine = Interpreter(loaded.ptx, bound)
        machine.run()
        wrong.append(bound.expectations[0].mismatches(machine.array("out")).tolist())
    assert wrong == [[], [0]]


def test_pairs_are_compared_by_element() -> None:
    bound = error_bound(instruction_of("tanh.approx.f16x2 %r1, %r2"))
    assert bound is not None
    one = np.array([0x3C003C00], np.uint32)
    assert bound.admits(np.array([0x3BFF3BFD], np.uint32), one, one).tolist() == [False, True]


def test_rows_of_this_file_can_fail() -> None:
    """One unit off is noticed."""
    row = scalar("rcp.approx.f32", "f32", 1, lambda a: F32.rcp(a, "rz"))
    assert evaluate(row, operands(("f32",))) != [F32.rcp(p, "rz") for p in operands(("f32",))[0].tolist()]
