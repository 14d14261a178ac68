"""Device functions: parameters, results, recursion, function pointers, and those of the library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ptx_runner import HEADER, REGISTERS, interpreter

from qdbg.compiler.source import load_module
from qdbg.runtime.interpreter import Fault, Interpreter, Unsupported
from qdbg.runtime.launch import bind, launch_for

PTX = Path(__file__).parent / "ptx"

VPRINTF = ".extern .func (.param .b32 r) vprintf (.param .b64 format, .param .b64 arguments);\n"
FIBONACCI = """
.func (.param .b32 r) fib(.param .b32 n)
{
    .reg .b32 %r<9>; .reg .pred %p<2>; .local .align 4 .b32 kept;
    ld.param.b32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; @%p1 bra base;
    { .param .b32 a; .param .b32 b; sub.u32 %r2, %r1, 1; st.param.b32 [a], %r2; call.uni (b), fib, (a);
      ld.param.b32 %r3, [b]; st.local.b32 [kept], %r3; }
    { .param .b32 a; .param .b32 b; sub.u32 %r2, %r1, 2; st.param.b32 [a], %r2; call.uni (b), fib, (a);
      ld.param.b32 %r4, [b]; }
    ld.local.b32 %r3, [kept]; add.u32 %r5, %r3, %r4; st.param.b32 [r], %r5; ret;
base:
    st.param.b32 [r], %r1;
}
"""
#: Calls a function of one 32-bit number and stores what it returns for each thread.
CALL = """
    mov.u32 %r0, %tid.x; {{ .param .b32 a; .param .b32 b; {argument} st.param.b32 [a], %r1;
    call (b), {function}, (a); ld.param.b32 %r2, [b]; }}
    ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1; st.global.u32 [%d1], %r2; ret;
"""


def machine(functions: str, body: str, threads: int = 1) -> Interpreter:
    """A kernel with an array `out` of a word a thread, behind the device functions."""
    return interpreter(
        f"// qdbg: launch k<<<1, {threads}>>>(out = u32[{threads}])\n"
        f"{HEADER}{functions}\n.visible .entry k(.param .u64 out) {{ {REGISTERS}\n{body}\n}}\n"
    )


def results(functions: str, body: str, threads: int = 1) -> list[int]:
    """What such a kernel leaves in `out`."""
    found = machine(functions, body, threads)
    found.run(1_000_000)
    return [int(value) for value in found.array("out")]


def test_trap_42_recursion_with_a_depth_for_each_lane() -> None:
    body = CALL.format(function="fib", argument="and.b32 %r1, %r0, 7;")
    assert results(FIBONACCI, body, 40) == [[0, 1, 1, 2, 3, 5, 8, 13][t % 8] for t in range(40)]


def test_lanes_at_different_depths_meet_again_behind_the_call() -> None:
    found = machine(FIBONACCI, CALL.format(function="fib", argument="and.b32 %r1, %r0, 7;"), 32)
    stores = []
    while (event := found.step()) is not None:
        function, instruction = found.location(event.index)
        if instruction.opcode == "st" and function.name == "k" and instruction.has("global"):
            stores.append(event.mask.all())
    assert stores == [True]


def test_the_callee_runs_before_the_caller_goes_on() -> None:
    """A lane inside the call is behind one that has returned, and one that is yet to call is behind both."""
    functions = """.func slow() { .reg .u32 %i; .reg .pred %p; mov.u32 %i, 0;
        again: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 3; @%p bra again; ret; }"""
    body = """mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; @%p1 call slow; mov.u32 %r1, 7;
        ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1; st.global.u32 [%d1], %r1; ret;"""
    found = machine(functions, body, 2)
    order = []
    while (event := found.step()) is not None:
        order.append((found.location(event.index)[1].text.split()[0], event.mask[:2].tolist()))
    assert order[2] == ("@%p1", [True, True])
    inside = [mask for _, mask in order[3:-5]]
    assert inside == [[True, False]] * 11
    assert all(mask == [True, True] for _, mask in order[-5:])


def test_trap_42_structs_go_byte_by_byte_and_several_results_come_back() -> None:
    """A function swaps two fields of a struct; one of its results has 12 bytes, the other 8."""
    functions = """
    .func (.param .align 4 .b8 r[12], .param .b64 s) swap(.param .align 4 .b8 p[12], .param .b16 add) {
        .reg .b32 %r<5>; .reg .b64 %d<2>; .reg .b16 %h;
        ld.param.b32 %r1, [p]; ld.param.b32 %r2, [p+4]; ld.param.b8 %r3, [p+9]; ld.param.b16 %h, [add];
        cvt.u32.u16 %r4, %h; add.u32 %r1, %r1, %r4;
        st.param.b32 [r], %r2; st.param.b32 [r+4], %r1; st.param.b8 [r+9], %r3; st.param.b8 [r+8], 1;
        cvt.u64.u32 %d1, %r4; shl.b64 %d1, %d1, 33; st.param.b64 [s], %d1; ret; }"""
    body = """.param .align 4 .b8 given[12]; .param .b16 add; .param .align 4 .b8 back[12]; .param .b64 more;
        st.param.b32 [given], 10; st.param.v2.b16 [given+4], {%h1, %h1}; st.param.b32 [given+8], 0x0900;
        mov.u16 %h2, 5; st.param.b16 [add], %h2; call (back, more), swap, (given, add);
        ld.param.b32 %r1, [back]; ld.param.b32 %r2, [back+4]; ld.param.b16 %r3, [back+8];
        ld.param.b64 %d2, [more]; shr.u64 %d2, %d2, 33; cvt.u32.u64 %r4, %d2;
        ld.param.u64 %d1, [out]; mad.lo.u32 %r1, %r1, 100, %r2; mad.lo.u32 %r1, %r1, 10000, %r3;
        mad.lo.u32 %r1, %r1, 10, %r4; st.global.u32 [%d1], %r1; ret;"""
    assert results(functions, body) == [((0 * 100 + 15) * 10000 + 0x0901) * 10 + 5]


def test_trap_42_register_parameters_and_a_result_that_nobody_wants() -> None:
    functions = """.func (.reg .u32 d, .reg .u32 m) divide(.reg .u32 a, .reg .u32 b) {
        div.u32 d, a, b; rem.u32 m, a, b; }"""
    body = """mov.u32 %r0, %tid.x; add.u32 %r5, %r0, 40; call (%r1, %r2), divide, (%r5, 7);
        call (_, %r3), divide, (%r5, 9); mad.lo.u32 %r1, %r1, 100, %r2; mad.lo.u32 %r1, %r1, 10, %r3;
        ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1; st.global.u32 [%d1], %r1; ret;"""
    wanted = [((t + 40) // 7 * 100 + (t + 40) % 7) * 10 + (t + 40) % 9 for t in range(4)]
    assert results(functions, body, 4) == wanted


def test_trap_42_the_address_of_a_parameter_is_local() -> None:
    functions = """.func (.param .b32 r) second(.param .align 4 .b8 p[8]) {
        .reg .b64 %d<3>; .reg .b32 %r; mov.b64 %d1, p; ld.local.b32 %r, [%d1+4]; cvta.local.u64 %d2, %d1;
        add.u32 %r, %r, 1; st.b32 [%d2], %r; ld.param.b32 %r, [%d1]; st.param.b32 [r], %r; ret; }"""
    body = """.param .align 4 .b8 a[8]; .param .b32 b; st.param.b32 [a+4], 41; call (b), second, (a);
        ld.param.b32 %r1, [b]; ld.param.u64 %d1, [out]; st.global.u32 [%d1], %r1; ret;"""
    assert results(functions, body) == [42]


def test_indirect_calls_of_a_function_a_lane() -> None:
    functions = """.func (.param .b32 r) one(.param .b32 n) {
        .reg .b32 %r; ld.param.b32 %r, [n]; add.u32 %r, %r, 1;
        st.param.b32 [r], %r; ret; }
        .func (.param .b32 r) two(.param .b32 n) {
        .reg .b32 %r; ld.param.b32 %r, [n]; mul.lo.u32 %r, %r, 10;
        st.param.b32 [r], %r; ret; }
        .global .align 8 .u64 table[2] = {one, two};"""
    body = CALL.format(
        function="%d2",
        argument="""mov.u32 %r1, %r0; and.b32 %r3, %r0, 1; mov.u64 %d3, table; mad.wide.u32 %d3, %r3, 8, %d3;
        ld.global.u64 %d2, [%d3]; prototype: .callprototype (.param .b32 _) _ (.param .b32 _);""",
    ).replace("(a);", "(a), prototype;")
    assert results(functions, body, 6) == [1, 10, 3, 30, 5, 50]


def test_guards_returns_and_exits_inside_functions() -> None:
    functions = """.func (.param .b32 r) some(.param .b32 n) {
        .reg .b32 %r; .reg .pred %p<3>; ld.param.b32 %r, [n];
        st.param.b32 [r], 5; setp.eq.u32 %p0, %r, 1; setp.eq.u32 %p1, %r, 2; @%p0 exit; @%p1 ret;
        st.param.b32 [r], 6; }"""
    assert results(functions, CALL.format(function="some", argument="mov.u32 %r1, %r0;"), 4) == [6, 0, 5, 6]


def test_a_barrier_inside_a_function() -> None:
    functions = """.shared .align 4 .b8 tile[256];
        .func (.param .b32 r) other(.param .b32 n) {
        .reg .b32 %r<4>; ld.param.b32 %r0, [n]; mov.u32 %r1, tile;
        shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0; bar.sync 0;
        sub.u32 %r3, 252, %r2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r0, [%r3];
        st.param.b32 [r], %r0; ret; }"""
    body = CALL.format(function="other", argument="mov.u32 %r1, %r0;")
    assert results(functions, body, 64) == [63 - t for t in range(64)]


def test_endless_recursion_is_a_fault() -> None:
    functions = ".func endless() { .local .b8 big[1000]; call endless; ret; }"
    found = machine(functions, "call endless; ret;")
    with pytest.raises(
        Fault, match=r"has no room for the frame of endless, being in 64 nested calls"
    ) as caught:
        found.run()
    assert caught.value.reason == "stack overflow"


def test_local_memory_ends_with_the_newest_frame() -> None:
    functions = """.func (.param .b64 r) dangling() {
        .reg .b64 %d; .local .align 8 .b8 own[64]; mov.u64 %d, own;
        cvta.local.u64 %d, %d; st.param.b64 [r], %d; st.u32 [%d+60], 1; ret; }"""
    body = "{ .param .b64 b; call (b), dangling; ld.param.b64 %d1, [b]; } ld.u32 %r1, [%d1+60]; ret;"
    with pytest.raises(Fault, match="outside") as caught:
        machine(functions, body).run()
    assert caught.value.reason == "out of bounds"


def test_a_wild_function_pointer_is_a_fault() -> None:
    functions = ".func f() { ret; }"
    with pytest.raises(Fault, match="calls address 0x1000, where no function is") as caught:
        machine(functions, "mov.u64 %d1, f; mov.u64 %d1, 0x1000; call %d1; ret;").run()
    assert caught.value.reason == "bad call"


@pytest.mark.parametrize(
    ("functions", "call", "why"),
    [
        (".func f(.param .b32 n) { ret; }", "call f;", "has 0 arguments, and f has 1"),
        (".func (.param .b32 r) f() { ret; }", "call f;", "has 0 results, and f has 1"),
        (".func f(.param .b64 n) { ret; }", ".param .b32 a; call f, (a);",
         "passes a, which has 4 bytes and not 8"),
        (".func f(.param .b8 n[12]) { ret; }", "call f, (%r1);", "passes one value where there are 12 bytes"),
        (".extern .func f();", "call f;", "calls f, which the file only declares"),
        (".extern .func (.param .b64 p) malloc(.param .b64 n);", ".param .b64 a; call (a), malloc, (a);",
         "calls malloc, which the file only declares and which is not supported"),
        ("", "call k, (%d1);", "calls k, which is not a device function"),
        ("", "alloca.u64 %d1, 8;", "is not supported"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_made(functions: str, call: str, why: str) -> None:
    with pytest.raises(Unsupported, match=r"^test\.ptx:\d+: ") as caught:
        machine(functions, f"{call} ret;").run()
    assert why in str(caught.value)


def test_a_snapshot_holds_the_stacks() -> None:
    body = CALL.format(function="fib", argument="and.b32 %r1, %r0, 7;")
    found = machine(FIBONACCI, body, 40)
    snapshots = []
    while found.step() is not None:
        snapshots.append(found.snapshot())
    wanted = found.array("out").tolist()
    for snapshot in snapshots[:: len(snapshots) // 9]:
        found.restore(snapshot)
        found.run()
        assert found.array("out").tolist() == wanted


# -- the library ------------------------------------------------------------------------------------

CUDA = r"""// qdbg: launch k<<<(1, 2), 3>>>(out = i32[1])
#include <cstdio>
__global__ void k(int *out)
{
    int i = threadIdx.x;
    if (blockIdx.y == 1 && i > 0)
        FORMATS
}
"""
FORMATS = [
    (r'"%d|%5d|%-5d|%05d|%+d|% d|%.3d|%i", i, i, -i, i, i, i, i, -7', "i"),
    (r'"%u|%x|%X|%#x|%o|%#o|%#X|%08x", -i, 255u, 255u, 255u, 8u, 8u, 0u, 48879u', "u"),
    (r'"%lld|%llu|%lx|%ld|%hd|%hhd|%zu", -1LL, ~0ULL, 1UL << 40, -5L, 65537, 257, sizeof(i)', "long"),
    (r'"%f|%.0f|%10.3f|%-9.2f|%+.1f|%09.2f|%e|%.3E|%g|%G|%g", 1.5, 2.5, i * 1.0, 3.14159, 2.0, '
     r'-1.5, 12345.678, 1e-9, 0.0001, 1e20, 100000.0', "float"),
    (r'"%f|%5.1f|%F|%e", 1.0 / 0.0 * 1, -1.0 / 0.0, 0.0, -0.0', "inf"),
    (r'"%a|%a|%A|%.2a|%a|%.0a", 1.0, 0.1, -255.5, 1.999, 0.0, 1.5', "hex"),
    (r'"%s|%8s|%-8s|%.2s|%c|%3c|%%|%*d|%-*d|%.*f", '
     r'"abc", "de", "fg", "hijk", 65, 66, 5, i, 4, i, 2, 1.0', "text"),
    (r'"plain\n"', "plain"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "name"), FORMATS, ids=[name for _, name in FORMATS])
def test_printf_prints_what_the_c_library_prints(arguments: str, name: str, tmp_path: Path) -> None:
    """The same call, compiled for the host by g++."""
    program = f"#include <cstdio>\nint main() {{ int i = 2; printf({arguments}); }}\n"
    (tmp_path / "host.cpp").write_text(program)
    subprocess.run(["g++", "-w", "-o", tmp_path / "host", tmp_path / "host.cpp"], check=True)
    wanted = subprocess.run([tmp_path / "host"], check=True, capture_output=True, text=True).stdout
    (tmp_path / "k.cu").write_text(CUDA.replace("FORMATS", f"printf({arguments});"))
    source = load_module(tmp_path / "k.cu")
    found = Interpreter(source.ptx, bind(source, launch_for(source)))
    found.run()
    assert [(one.block, one.thread) for one in found.printed] == [
        ((0, 1, 0), (1, 0, 0)),
        ((0, 1, 0), (2, 0, 0)),
    ]
    assert found.printed[1].text == wanted


def test_printf_returns_the_number_of_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(CUDA.replace("FORMATS", 'out[0] = printf("%d %s %f\\n", i, "x", 0.5);'))
    source = load_module(tmp_path / "k.cu")
    found = Interpreter(source.ptx, bind(source, launch_for(source)))
    found.run()
    assert found.array("out").tolist() == [3]


@pytest.mark.parametrize("opt", [3, 0])
def test_a_failed_assertion_names_message_file_line_and_function(opt: int, tmp_path: Path) -> None:
    text = "#include <cassert>\n" + CUDA.replace("FORMATS", "assert(i < 2 && out);")
    (tmp_path / "k.cu").write_text(text)
    source = load_module(tmp_path / "k.cu", opt)
    line = 1 + text[: text.index("assert(")].count("\n")
    with pytest.raises(
        Fault, match=rf"thread \(2, 0, 0\) of block \(0, 1, 0\): assertion `i < 2 && out` .*:{line}\)"
    ) as e:
        Interpreter(source.ptx, bind(source, launch_for(source))).run()
    assert e.value.reason == "assertion"
    assert "k(int *)" in str(e.value)


def test_a_page_of_ptx_as_people_write_it() -> None:
    """`tests/ptx/handwritten.ptx`, with its arithmetic done again in Python."""
    source = load_module(PTX / "handwritten.ptx")
    found = Interpreter(source.ptx, bind(source, launch_for(source)))
    found.run()

    def expected(block: int, thread: int) -> int:
        value = (16 * block + thread) + (5 if thread == 0 else 105) + 1
        value = [value * 3, value + 120, ~value, ~value][thread & 3]
        return (value + 0x10 + 3) % 2**32

    wanted = [expected(block, thread) for block in range(4) for thread in range(16)]
    assert found.array("out").tolist() == wanted
    assert [(one.block, one.thread) for one in found.printed] == [
        ((b & 1, b >> 1, 0), (7, 1, 0)) for b in range(4)
    ]
    assert [one.text for one in found.printed] == [f"{wanted[16 * b + 15]} %u %s" for b in range(4)]


@pytest.mark.parametrize("ordered", ["volatile.", ""])
def test_trap_52_lanes_that_wait_for_each_other_all_finish(ordered: str) -> None:
    """Lane n waits for lane n - 1, within a warp and from warp to warp; a stack of masks would hang here."""
    count = 40 if ordered else 5
    body = f""".shared .align 4 .u32 turn; mov.u32 %r0, %tid.x;
    spin: ld.{ordered}shared.u32 %r1, [turn]; setp.ne.u32 %p1, %r1, %r0; @%p1 bra spin;
        add.u32 %r2, %r1, 1; ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1;
        st.global.u32 [%d1], %r2; st.{ordered}shared.u32 [turn], %r2; ret;"""
    assert results("", body, count) == [t + 1 for t in range(count)]


def test_clocks_count_instructions() -> None:
    body = """mov.u64 %d2, %clock64; mov.u32 %r1, %clock; mov.u64 %d3, %globaltimer; mov.u32 %r2, %clock;
        mov.u32 %r4, %clock_hi; sub.u32 %r3, %r2, %r1; sub.u64 %d3, %d3, %d2; cvt.u32.u64 %r5, %d3;
        mad.lo.u32 %r3, %r3, 10, %r5; add.u32 %r3, %r3, %r4;
        ld.param.u64 %d1, [out]; st.global.u32 [%d1], %r3; nanosleep.u32 1000; brkpt; ret;"""
    assert results("", body) == [22]


def test_brx_idx_chooses_a_label_a_lane() -> None:
    body = """mov.u32 %r0, %tid.x; table: .branchtargets ten, twenty, ten, behind;
        ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r0, 4, %d1; mov.u32 %r1, 1;
        brx.idx %r0, table;
    twenty: mov.u32 %r1, 20; bra.uni store;
    ten: mov.u32 %r1, 10;
    store: st.global.u32 [%d1], %r1; ret; behind:"""
    assert results("", body, 4) == [10, 20, 10, 0]
    with pytest.raises(Fault, match="branches by entry 4 of a table of 4"):
        results("", body, 5)
