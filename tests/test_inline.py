"""Calls expanded at the level of PTX: the flat kernel on the interpreter and on the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lowered import emulate
from ptx_runner import HEADER, REGISTERS, source

from qdbg.compiler.machine.config import NANO
from qdbg.compiler.ptx.inline import inlined
from qdbg.compiler.ptx.ir import Function
from qdbg.compiler.source import load_module
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import LaunchError, bind, launch_for
from qdbg.runtime.launcher import Prepared, bind_for
from qdbg.runtime.session import Session

#: Thread index in %r0, the thread's element of `out` at %d1.
START = "mov.u32 %r0, %tid.x; ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1;\n"


def text(functions: str, body: str, threads: int = 4) -> str:
    """A kernel with an array `out` of a word a thread, behind device functions."""
    return (
        f"// qdbg: launch k<<<1, {threads}>>>(out = u32[{threads}])\n"
        f"{HEADER}{functions}\n.visible .entry k(.param .u64 out) {{ {REGISTERS}\n{START}{body}\n}}\n"
    )


def interpreted(written: str) -> tuple[list[int], Function]:
    """What the flat kernel leaves in `out`, which must be what the original does; and the flat kernel."""
    loaded = source(written)
    bound = bind(loaded, launch_for(loaded))
    flat = inlined(loaded.ptx, bound.kernel)
    found = []
    for kernel in (bound.kernel, flat):
        machine = Interpreter(loaded.ptx, replace(bound, kernel=kernel))
        machine.run(100_000)
        found.append([int(value) for value in machine.array("out")])
    assert found[0] == found[1]
    return found[0], flat


def results(functions: str, body: str, threads: int = 4) -> list[int]:
    """What the machine leaves in `out`, which must be what the interpreter does with and without calls."""
    written = text(functions, body, threads)
    on_machine = emulate(written)
    assert on_machine.trap is None
    expected, flat = interpreted(written)
    assert not any(i.opcode == "call" for i in flat.body)
    assert [int(value) for value in on_machine.array("out")] == expected
    return expected


AFFINE = """
.func (.param .b32 r) affine(.param .b32 x, .param .b32 y)
{ .reg .b32 %r<9>; ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y]; mad.lo.u32 %r3, %r1, 3, %r2;
  st.param.b32 [r], %r3; ret; }
.func (.param .b32 r) twice(.param .b32 x)
{ .reg .b32 %r<9>; ld.param.u32 %r1, [x];
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], 5;
    call.uni (c), affine, (a, b); ld.param.b32 %r1, [c]; }
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], %r1;
    call.uni (c), affine, (a, b); ld.param.b32 %r2, [c]; }
  st.param.b32 [r], %r2; ret; }
"""


def test_several_call_sites_and_nested_calls() -> None:
    body = """
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), twice, (a); ld.param.b32 %r1, [b]; }
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a); ld.param.b32 %r2, [b]; }
        st.global.u32 [%d1], %r2; ret;
    """

    def twice(x: int) -> int:
        once = 3 * x + 5
        return 4 * once

    assert results(AFFINE, body) == [twice(twice(t)) for t in range(4)]


def test_what_an_expansion_is_called_and_where_it_comes_from() -> None:
    body = "call (%r1), affine, (%r0, 7); call (%r2), affine, (%r1, %r0); st.global.u32 [%d1], %r2; ret;"
    written = text(AFFINE, body)
    values, flat = interpreted(written)
    assert values == [3 * (3 * t + 7) + t for t in range(4)]
    assert {"%r1", "%r1@affine1", "%r1@affine2"} <= set(flat.registers)
    lines = written.splitlines()
    assert all(i.text.split()[0] in lines[i.line - 1] for i in flat.body)
    assert [i.index for i in flat.body] == list(range(len(flat.body)))
    loads = [i for i in flat.body if i.text.startswith("ld.param.u32 %r1, [x]")]
    assert len(loads) == 2
    assert {i.line for i in loads} == {next(n for n, x in enumerate(lines, 1) if "affine" in x) + 1}


def test_a_kernel_without_calls_stays_as_it_is() -> None:
    loaded = source(text(AFFINE, "st.global.u32 [%d1], %r0; ret;"))
    assert inlined(loaded.ptx, loaded.ptx.kernels[0]) is loaded.ptx.kernels[0]


def test_loops_early_returns_and_guards() -> None:
    """Lanes leave the function at different places; where the guard is false they pass the call."""
    functions = """
    .func (.param .b32 r) collatz(.param .b32 n)
    { .reg .b32 %r<9>; .reg .pred %p<9>; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
      again: st.param.b32 [r], %r2; setp.le.u32 %p1, %r1, 1; @%p1 ret; add.u32 %r2, %r2, 1;
      and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra even;
      mad.lo.u32 %r1, %r1, 3, 1; bra again;
      even: shr.u32 %r1, %r1, 1; bra again; }
    """
    body = """
        mov.u32 %r2, 1000; setp.ne.u32 %p1, %r0, 2;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; @%p1 call (b), collatz, (a);
          @%p1 ld.param.b32 %r2, [b]; }
        again: add.u32 %r3, %r0, 20; @!%p1 call (%r2), collatz, (%r3);
        st.global.u32 [%d1], %r2; ret;
    """
    assert results(functions, body, 7) == [0, 0, 15, 7, 2, 5, 8]


def test_structures_whose_parts_agree_become_registers() -> None:
    functions = """
    .func (.param .align 8 .b8 r[16]) mix(.param .align 8 .b8 s[12], .param .b64 k)
    { .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.v2.b32 {%r1, %r2}, [s]; ld.param.b32 %r3, [s+8];
      ld.param.u64 %d1, [k]; cvt.u32.u64 %r4, %d1; sub.u32 %r5, %r1, %r2; mul.wide.u32 %d2, %r3, %r4;
      st.param.b32 [r], %r5; st.param.b64 [r+8], %d2; ret; }
    """
    body = """
        add.u32 %r1, %r0, 100; mov.u64 %d5, 70000;
        { .param .align 8 .b8 s[12]; .param .b64 k; .param .align 8 .b8 b[16];
          st.param.v2.b32 [s], {%r1, 13}; st.param.b32 [s+8], 70000; st.param.b64 [k], %d5;
          call (b), mix, (s, k); ld.param.b32 %r2, [b]; ld.param.b64 %d6, [b+8]; }
        shr.u64 %d6, %d6, 32; cvt.u32.u64 %r3, %d6; mad.lo.u32 %r2, %r2, 10, %r3;
        st.global.u32 [%d1], %r2; ret;
    """
    assert results(functions, body) == [(87 + t) * 10 + (70000 * 70000 >> 32) for t in range(4)]


def test_structures_that_the_code_indexes_become_local_memory() -> None:
    functions = """
    .func (.param .b32 r) at(.param .align 4 .b8 s[16], .param .b32 i)
    { .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u32 %r1, [i]; mov.b64 %d1, s; mad.wide.u32 %d1, %r1, 4, %d1;
      ld.param.b32 %r2, [%d1]; st.param.b32 [r], %r2; ret; }
    """
    body = """
        { .param .align 4 .b8 s[16]; .param .b32 i; .param .b32 b;
          st.param.b32 [s], 11; st.param.b32 [s+4], 22; st.param.b32 [s+8], 33; st.param.b32 [s+12], 44;
          st.param.b32 [i], %r0; call (b), at, (s, i); ld.param.b32 %r1, [b]; }
        st.global.u32 [%d1], %r1; ret;
    """
    values, flat = interpreted(text(functions, body))
    assert values == [11, 22, 33, 44]
    assert [(v.space, v.size) for v in flat.variables] == [("local", 16)]


def test_narrow_parameters_are_extended_by_their_type() -> None:
    functions = """
    .func (.param .b32 r) widen(.param .b32 c, .param .b16 h)
    { .reg .b32 %r<9>; .reg .b16 %h<9>; ld.param.s8 %r1, [c]; ld.param.u8 %h1, [c]; ld.param.u16 %r3, [h];
      cvt.u32.u16 %r2, %h1; mad.lo.u32 %r1, %r2, 1000, %r1; add.u32 %r1, %r1, %r3;
      st.param.b32 [r], %r1; ret; }
    """
    body = """
        add.u32 %r1, %r0, 0x17e; cvt.u16.u32 %h1, %r0; sub.u16 %h1, %h1, 2;
        { .param .b32 c; .param .b16 h; .param .b32 b; st.param.b32 [c], %r1; st.param.b16 [h], %h1;
          call (b), widen, (c, h); ld.param.b32 %r2, [b]; }
        st.global.u32 [%d1], %r2; ret;
    """
    expected = [126 * 1001 + 65534, 127 * 1001 + 65535, 128 * 1000 - 128, 129 * 1000 - 127 + 1]
    assert results(functions, body) == expected


def test_register_parameters() -> None:
    functions = """
    .func (.reg .u32 q, .reg .u32 rest) divide(.reg .u32 a, .reg .u32 b)
    { div.u32 q, a, b; rem.u32 rest, a, b; ret; }
    """
    body = """
        add.u32 %r1, %r0, 100; call (%r2, %r3), divide, (%r1, 7); call (%r4, _), divide, (%r1, 9);
        mad.lo.u32 %r2, %r2, 100, %r3; mad.lo.u32 %r2, %r4, 10000, %r2; st.global.u32 [%d1], %r2; ret;
    """
    expected = [n // 9 * 10000 + n // 7 * 100 + n % 7 for n in range(100, 104)]
    assert results(functions, body) == expected


def test_shared_memory_of_a_function_is_one_for_all_its_expansions() -> None:
    functions = """
    .func (.reg .u32 old) swap(.reg .u32 new)
    { .shared .b32 kept; ld.shared.u32 old, [kept]; st.shared.u32 [kept], new; ret; }
    """
    body = """
        call (%r1), swap, (5); call (%r2), swap, (6); call (%r3), swap, (7);
        mad.lo.u32 %r1, %r3, 10, %r2; st.global.u32 [%d1], %r1; ret;
    """
    assert results(functions, body, 1) == [65]


def test_indirect_calls_try_the_functions_whose_address_is_taken() -> None:
    functions = """
    .func (.param .b32 r) inc(.param .b32 x)
    { .reg .b32 %r1; ld.param.b32 %r1, [x]; add.u32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }
    .func (.param .b32 r) square(.param .b32 x)
    { .reg .b32 %r1; ld.param.b32 %r1, [x]; mul.lo.u32 %r1, %r1, %r1; st.param.b32 [r], %r1; ret; }
    .func (.param .b32 r) unused(.param .b32 x) { ret; }
    """
    body = """
        mov.u64 %d2, inc; mov.u64 %d3, square; setp.lt.u32 %p1, %r0, 3; selp.b64 %d2, %d2, %d3, %p1;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;
          proto: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (b), %d2, (a), proto; ld.param.b32 %r1, [b]; }
        st.global.u32 [%d1], %r1; ret;
    """
    written = text(functions, body, 6)
    values, flat = interpreted(written)
    assert values == [1, 2, 3, 9, 16, 25]
    assert "%r1@inc1" in flat.registers
    assert "%r1@unused1" not in flat.registers
    found = emulate(written)
    assert found.trap is None
    assert found.array("out").tolist() == values


def test_recursion_traps_in_the_first_lane_that_gets_there() -> None:
    functions = """
    .func (.param .b32 r) fib(.param .b32 n)
    { .reg .b32 %r<9>; .reg .pred %p<9>; ld.param.b32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; @%p1 bra base;
      sub.u32 %r2, %r1, 1;
      { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), fib, (a); ld.param.b32 %r3, [b]; }
      sub.u32 %r2, %r1, 2;
      { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), fib, (a); ld.param.b32 %r4, [b]; }
      add.u32 %r1, %r3, %r4;
      base: st.param.b32 [r], %r1; ret; }
    """
    body = """
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), fib, (a); ld.param.b32 %r1, [b]; }
        st.global.u32 [%d1], %r1; ret;
    """
    written = text(functions, body, 8)
    values, _ = interpreted(written)
    assert values == [0, 1, 1, 2, 3, 5, 8, 13]
    assert emulate(written).trap == "<trap lane 2: recursion>"


EXTERNAL = """
.extern .func (.param .b32 r) vprintf (.param .b64 format, .param .b64 arguments);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 s);
.extern .func (.param .b64 r) malloc (.param .b64 n);
"""


@pytest.mark.parametrize(
    ("call", "trap"),
    [
        ("call (b), vprintf, (p, p); ld.param.b32 %r1, [b];", None),
        ("call (b), vprintf, (p, p); ld.param.b32 %r1, [b]; add.u32 %r0, %r0, %r1;", "unsupported"),
        ("@%p1 call __assertfail, (p, p, l, p, p);", "assert"),
        ("@%p1 call (c), malloc, (p);", "unsupported"),
    ],
)
def test_functions_of_the_library(call: str, trap: str | None) -> None:
    body = f"""
        setp.eq.u32 %p1, %r0, 3; mov.u64 %d5, 0;
        {{ .param .b64 p; .param .b32 l; .param .b32 b; .param .b64 c; st.param.b64 [p], %d5;
           st.param.b32 [l], 7; {call} }}
        st.global.u32 [%d1], %r0; ret;
    """
    found = emulate(text(EXTERNAL, body))
    if trap is None:
        assert found.trap is None
        assert found.array("out").tolist() == [0, 1, 2, 3]
    else:
        lane = 3 if "@" in call else 0
        assert found.trap == f"<trap lane {lane}: {trap}>"


def test_calls_that_expand_to_too_much_are_refused() -> None:
    """Twelve functions that call the one before them twice: 4,096 expansions."""
    functions = ".func f0(.reg .u32 x) { ret; }\n" + "\n".join(
        f".func f{n}(.reg .u32 x) {{ call f{n - 1}, (x); call f{n - 1}, (x); ret; }}" for n in range(1, 13)
    )
    loaded = source(text(functions, "call f12, (%r0); ret;"))
    expected = "expand to more than 4000 PTX instructions and the machine holds 512; call less, or use "
    with pytest.raises(LaunchError, match=expected):
        bind_for(NANO, loaded, launch_for(loaded))


def test_a_breakpoint_in_a_function_stops_at_every_call() -> None:
    body = "call (%r1), affine, (%r0, 7);\ncall (%r2), affine, (%r1, %r0);\nst.global.u32 [%d1], %r2; ret;"
    loaded = source(text(AFFINE, body))
    bound = bind_for(NANO, loaded, launch_for(loaded))
    image = Prepared(loaded, bound, NANO).image
    session = Session(
        loaded, bound, image.program, Emulator(NANO), Interpreter(loaded.ptx, bound), image.vocabulary, NANO,
        image.ids,
    )  # fmt: skip
    session.start()
    line = next(n for n, written in enumerate(loaded.ptx.lines, 1) if "st.param.b32 [r], %r3" in written)
    session.toggle_breakpoint(line)
    stops = []
    while not session.ended:
        session.proceed()
        stops.append(session.status)
    assert stops[:2] == ["breakpoint 1, hit 1", "breakpoint 1, hit 2"]
    assert len(stops) == 3
    assert session.mismatch is None


CUDA = """
// qdbg: launch k<<<1, 8>>>(out = i32[8], x = i32[8] = iota)
struct Vec { int x, y, z; };
__device__ __noinline__ Vec cross(Vec a, Vec b) {
    Vec r = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return r;
}
__device__ __noinline__ long long dot(Vec a, Vec b) { return (long long)a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __noinline__ short clip(short v, signed char low) { return v < low ? low : v; }
__device__ __noinline__ int volume(Vec a, Vec b, Vec c) { return (int)dot(cross(a, b), c); }
__global__ void k(int *out, const int *x) {
    int i = threadIdx.x;
    Vec a = {x[i], 2, 3}, b = {-1, i, 5}, c = {4, -6, x[7 - i]};
    int v = volume(a, b, c);
    if (i & 1) v += volume(b, c, a) * 10;
    out[i] = v + clip((short)v, -5);
}
"""


def test_cuda_functions_with_structures(tmp_path: Path) -> None:
    """The expected values are the determinants, by hand in Python."""
    path = tmp_path / "k.cu"
    path.write_text(CUDA)
    loaded = load_module(path, 3)
    bound = bind_for(NANO, loaded, launch_for(loaded))
    assert not any(i.opcode == "call" for i in bound.kernel.body)
    machine = Interpreter(loaded.ptx, bound)
    machine.run(100_000)

    def expected(i: int) -> int:
        a, b, c = (i, 2, 3), (-1, i, 5), (4, -6, 7 - i)
        normal = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
        v = sum(p * q for p, q in zip(normal, c, strict=True)) * (11 if i & 1 else 1)
        return v + max(v, -5)

    assert machine.array("out").tolist() == [expected(i) for i in range(8)]
