"""The launch language, the binding of launches, and the memory they lay out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ptx_runner import HEADER

from qdbg.compiler.ptx.parser import parse
from qdbg.compiler.source import Source, load_module
from qdbg.runtime.launch import (
    BoundLaunch,
    LaunchError,
    bind,
    launch_for,
    parse_launches,
    with_overrides,
)

DOT = """.visible .entry dot(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3) { ret; }
"""
DOT_LAUNCH = "dot<<<1, 4>>>(a = i32[1, 2, 3], b = i32[4, 5, 6], out = i32[1], n = 3)"


def cuda(launch: str, ptx: str = DOT, path: Path = Path("dot.cu"), **names: tuple[str, ...]) -> Source:
    """A CUDA source with these comments whose kernel compiled to this PTX."""
    names = names or {"dot": ("a", "b", "out", "n")}
    module = parse(HEADER + ptx)
    return Source(path, (), module, names, launch, {k.name: k.name for k in module.kernels})


def bound(launch: str, ptx: str = DOT, **names: tuple[str, ...]) -> BoundLaunch:
    """The first launch of comments, bound without a machine's limits."""
    source = cuda(launch, ptx, Path("dot.cu"), **names)
    return bind(source, launch_for(source))


def one(value: str, parameter: str = ".u64") -> BoundLaunch:
    """A kernel of one parameter launched with one value."""
    return bound(
        f"// qdbg: launch k<<<1, 1>>>(x = {value})", f".entry k(.param {parameter} x) {{ ret; }}", k=("x",)
    )


def test_launch_and_expectation_across_lines() -> None:
    text = """int unrelated; // nothing
    // qdbg: launch dot<<<(2, 3), (4, 2, 1), 256>>>(a = i32[1, 2, 3],
    //qdbg:      b = i32[4, 5, 6], out = i32[1],
    // qdbg:  n = -3)
    // qdbg: expect out = i32[32]
    // qdbg: launch dot<<<dim3(1), 1>>>()
    """
    first, second = parse_launches(text, "dot.cu")
    assert (first.kernel, first.grid, first.block, first.shared) == ("dot", (2, 3, 1), (4, 2, 1), 256)
    assert [a.name for a in first.arguments] == ["a", "b", "out", "n"]
    assert first.origin == "dot.cu:2"
    assert [e.origin for e in first.expectations] == ["dot.cu:5"]
    assert (second.kernel, second.grid, second.arguments) == ("dot", (1, 1, 1), ())


def test_binding_lays_memory_out() -> None:
    launch = bound(f"// qdbg: launch {DOT_LAUNCH}\n// qdbg: expect out = i32[32]")
    assert [(a.name, a.address, a.data.tolist()) for a in launch.allocations] == [
        ("a", 0x1000, [1, 2, 3]),
        ("b", 0x1010, [4, 5, 6]),
        ("out", 0x1020, [0]),
    ]
    words = np.frombuffer(launch.parameters, "<u4").tolist()
    assert words == [0x1000, 0, 0x1010, 0, 0x1020, 0, 3]
    (expectation,) = launch.expectations
    assert expectation.mismatches(np.array([32], np.int32)).tolist() == []
    assert expectation.mismatches(np.array([33], np.int32)).tolist() == [0]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 29])
def test_a_word_behind_each_array_is_free(length: int) -> None:
    launch = bound(f"// qdbg: launch dot<<<1, 1>>>(a = u8[{length}], b = u8[{length}], out = u8[1], n = 0)")
    a, b, _ = launch.allocations
    assert b.address % 16 == 0
    assert b.address - a.end >= 4


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("i32[3]", [0, 0, 0]),
        ("i32[3,]", [3]),
        ("i32[1] = 5", [5]),
        ("i32[-1, 0x10, +2, 007]", [-1, 16, 2, 7]),
        ("u8[4] = 255", [255] * 4),
        ("i64[4] = iota", [0, 1, 2, 3]),
        ("f32[3] = iota", [0.0, 1.0, 2.0]),
        ("f32[1.5, -2, 0x1.8p3, 1e-3, 0f3FC00000]", [1.5, -2.0, 12.0, np.float32(0.001), 1.5]),
        ("f64[inf, -inf, 0.1]", [np.inf, -np.inf, 0.1]),
        ("bytes[1, 2]", [1, 2]),
    ],
)
def test_array_values(value: str, expected: list[float]) -> None:
    assert one(value).allocations[0].data.tolist() == expected


@pytest.mark.parametrize(
    ("value", "bits"),
    [("nan", 0x7FFFFFFF), ("-nan", 0xFFFFFFFF), ("-0.0", 0x80000000), ("1", 0x3F800000), ("1e-45", 1),
     ("0x1.fffffep127", 0x7F7FFFFF), ("0f7FC00001", 0x7FC00001), ("inf", 0x7F800000), ("0.1", 0x3DCCCCCD)],
)  # fmt: skip
def test_float_bits(value: str, bits: int) -> None:
    assert one(f"f32[1] = {value}").allocations[0].data.view(np.uint32).tolist() == [bits]
    assert one(value, ".f32").parameters == bits.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("value", "parameter", "encoded"),
    [
        ("-1", ".u32", b"\xff\xff\xff\xff"),
        ("4294967295", ".u32", b"\xff\xff\xff\xff"),
        ("0x80", ".u8", b"\x80"),
        ("-2", ".u16", b"\xfe\xff"),
        ("1.0", ".f64", b"\0\0\0\0\0\0\xf0\x3f"),
        ("12345678901", ".u64", (12345678901).to_bytes(8, "little")),
        ("i32[1, -1]", ".align 4 .b8", b"\1\0\0\0\xff\xff\xff\xff"),
    ],
)
def test_scalar_and_struct_parameters(value: str, parameter: str, encoded: bytes) -> None:
    name = "x[8]" if "align" in parameter else "x"
    entry = f".entry k(.param {parameter} {name}) {{ ret; }}"
    launch = bound(f"// qdbg: launch k<<<1, 1>>>(x = {value})", entry, k=("x",))
    assert launch.parameters == encoded


def test_random_is_splitmix64() -> None:
    """The first outputs of splitmix64 for the seed 1234567, as published with its C code."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
                 16408922859458223821]  # fmt: skip
    assert one("u64[5] = random(1234567)").allocations[0].data.tolist() == published
    assert one("u8[5] = random(1234567)").allocations[0].data.tolist() == [v % 256 for v in published]
    assert one("i32[5] = random(1234567, -10, 10)").allocations[0].data.tolist() == [
        v % 20 - 10 for v in published
    ]
    unit = [-1 + 2 * (v >> 11) / 2**53 for v in published]
    assert one("f64[5] = random(1234567)").allocations[0].data.tolist() == unit


def test_array_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.5, 2.5]], np.float32))
    source = cuda("// qdbg: launch k<<<1, 1>>>(x = f32[] = @x.npy)", ".entry k(.param .u64 x) { ret; }",
                  tmp_path / "k.cu", k=("x",))  # fmt: skip
    assert bind(source, launch_for(source)).allocations[0].data.tolist() == [1.5, 2.5]


def test_named_arguments_may_come_in_any_order() -> None:
    launch = bound("// qdbg: launch dot<<<1, 4>>>(n = 7, out = i32[1], b = i32[2], a = i32[3])")
    assert np.frombuffer(launch.parameters, "<u4").tolist()[-1] == 7
    assert [a.name for a in launch.allocations] == ["a", "b", "out"]


def test_ptx_arguments_match_by_position_and_names_are_labels() -> None:
    module = parse(HEADER + DOT)
    text = "// qdbg: launch dot<<<1, 1>>>(left = i32[2], right = i32[2], sum = i32[1], n = 2)"
    source = Source(Path("dot.ptx"), None, module, {"dot": ("p0", "p1", "p2", "p3")}, text, {"dot": "dot"})
    assert [a.name for a in bind(source, launch_for(source)).allocations] == ["left", "right", "sum"]


@pytest.mark.parametrize("arguments", ["sum = i32[2], n = 3", "i32[2], 3", "i32[2], n = 3"])
def test_cuda_that_hides_its_parameters_takes_labels_too(tmp_path: Path, arguments: str) -> None:
    """In a macro, or as one of two overloads whose parameters have different names."""
    kernels = """
        #define PARAMETERS int *out, int n
        __global__ void hidden(PARAMETERS) { *out = n; }
        __global__ void twice(int *out, int n) { *out = n; }
        __global__ void twice(float *values, int count) { *values = count; }
    """
    file = tmp_path / "k.cu"
    for kernel in ("hidden", "_Z5twicePii", "_Z5twicePfi"):
        file.write_text(f"// qdbg: launch {kernel}<<<1, 1>>>({arguments}){kernels}")
        source = load_module(file)
        launch = bind(source, launch_for(source))
        assert np.frombuffer(launch.parameters, "<u4").tolist()[2:3] == [3]
        assert [a.name for a in launch.allocations] == ["sum" if "sum" in arguments else "param_0"]


def test_shared_window_static_then_dynamic() -> None:
    ptx = """.extern .shared .align 16 .b8 extra[];
        .entry k(.param .u64 x) { .reg .b32 %r<9>; .shared .align 1 .b8 one[1]; .shared .align 8 .b8 two[8];
        mov.u32 %r1, extra; ret; }"""
    launch = bound("// qdbg: launch k<<<1, 1, 100>>>(x = i32[1])", ptx, k=("x",))
    assert {n: launch.symbols[n] for n in ("one", "two", "extra")} == {"one": 0, "two": 8, "extra": 16}
    assert (launch.shared_base, launch.shared_bytes, launch.memory_end) == (0x1010, 116, 0x1010 + 116)


def test_module_variables_that_nobody_reaches_take_no_memory() -> None:
    ptx = """.global .u32 target = 5; .global .u64 pointer = target; .global .b8 unused[4096];
        .entry k(.param .u64 x) { .reg .b64 %d<9>; ld.global.u64 %d1, [pointer]; ret; }"""
    launch = bound("// qdbg: launch k<<<1, 1>>>(x = i32[1])", ptx, k=("x",))
    placed = {a.name: a for a in launch.allocations}
    assert sorted(placed) == ["pointer", "target", "x"]
    assert placed["pointer"].data.tolist() == [placed["target"].address]


def test_overrides_replace_add_and_drop_expectations() -> None:
    (launch,) = parse_launches(f"// qdbg: launch {DOT_LAUNCH}\n// qdbg: expect out = i32[32]")
    assert with_overrides(launch) == launch
    changed = with_overrides(
        launch, grid="2", block="4,2", shared=64, args=[("n", "2"), ("extra", "f32[1.5,]")]
    )
    assert (changed.grid, changed.block, changed.shared) == ((2, 1, 1), (4, 2, 1), 64)
    assert [a.name for a in changed.arguments] == ["a", "b", "out", "n", "extra"]
    assert [a.origin for a in changed.arguments[3:]] == ["--arg n", "--arg extra"]
    assert changed.expectations == ()


def test_sizes_of_options_may_stand_in_brackets() -> None:
    (launch,) = parse_launches(f"// qdbg: launch {DOT_LAUNCH}")
    changed = with_overrides(launch, grid="(2,2)", block=" dim3(4, 2)")
    assert (changed.grid, changed.block) == ((2, 2, 1), (4, 2, 1))


@pytest.mark.parametrize(
    ("option", "cause"),
    [
        ({"grid": "2,"}, "--grid 2,: expected a number, found the end of the value"),
        ({"block": "(2"}, "--block (2: expected `)` after the block dimensions, found the end of the value"),
        ({"args": [("a", "i32[1")]}, "--arg a: expected `,` or `]` in i32[...], found the end of the value"),
        ({"args": [("n", "3 4")]}, "--arg n: `4` after the end of the value; remove it"),
    ],
)
def test_errors_of_options_speak_of_the_option(option: dict[str, Any], cause: str) -> None:
    (launch,) = parse_launches(f"// qdbg: launch {DOT_LAUNCH}")
    with pytest.raises(LaunchError) as error:
        with_overrides(launch, **option)
    assert str(error.value) == cause


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_kind(end: str, tmp_path: Path) -> None:
    lines = ["// nothing", f"// qdbg: launch {DOT_LAUNCH}", "// qdbg: expect out = i32[32]"]
    lines += [*HEADER.splitlines(), *DOT.splitlines()]
    (tmp_path / "dot.ptx").write_bytes(end.join(lines).encode())
    loaded = load_module(tmp_path / "dot.ptx")
    (launch,) = parse_launches(loaded.text, "dot.ptx")
    assert (launch.origin, launch.expectations[0].origin) == ("dot.ptx:2", "dot.ptx:3")
    assert loaded.ptx.kernels[0].line == 7
    (cuda_launch,) = parse_launches(end.join(lines), "dot.cu")
    assert cuda_launch.origin == "dot.cu:2"


def test_a_kernel_without_a_body_cannot_be_launched() -> None:
    with pytest.raises(LaunchError, match=r"^<ptx>:4: k is only declared here; give the file that defines"):
        bound("// qdbg: launch k<<<1, 1>>>(x = i32[1])", ".entry k(.param .u64 x);", k=("x",))


@pytest.mark.parametrize("written", ["red<int, 3>", "red<int,3>", "red< int , 3 >", "_Z3redIiLi3EEvPT_"])
def test_template_kernels_are_named_with_their_arguments(written: str) -> None:
    names = {"_Z3redIiLi3EEvPT_": "red<int, 3>", "_Z3redIiLi4EEvPT_": "red<int, 4>"}
    entries = "".join(f".entry {name}(.param .u64 x) {{ ret; }}\n" for name in names)
    comment = f"// qdbg: launch red<int, 4><<<1, 2>>>(i32[1])\n// qdbg: launch {written}<<<1, 4>>>(i32[1])"
    source = Source(Path("r.cu"), (), parse(HEADER + entries), {}, comment, names)
    found = bind(source, launch_for(source, "red<int,3>"))
    assert (found.kernel.name, found.block) == ("_Z3redIiLi3EEvPT_", (4, 1, 1))


def test_expectation_within_ulps() -> None:
    """1.0 and its neighbour are 1 ulp apart, the two zeros none, NaN equals only NaN."""
    launch = bound(
        "// qdbg: launch dot<<<1, 1>>>(a = i32[1], b = i32[1], out = f32[4], n = 0)\n"
        "// qdbg: expect out ~ f32[1, 0, nan, -1] ulp 1"
    )
    (expectation,) = launch.expectations
    near = np.array([0x3F800001, 0x80000000, 0x7FC00000, 0xBF800000], np.uint32).view(np.float32)
    far = np.array([0x3F800002, 0x80000002, 0x3F800000, 0xBF7FFFFE], np.uint32).view(np.float32)
    assert expectation.mismatches(near).tolist() == []
    assert expectation.mismatches(far).tolist() == [0, 1, 2, 3]


BAD_TEXT = [
    ("lanch k<<<1, 1>>>()", "followed by lanch; it takes `launch` or `expect`"),
    ("", "followed by nothing"),
    ("launch k<<<1, 1>>>(", "never closed"),
    ("launch k<<<1>>>()", "expected `,` after the grid, found `>>>"),
    ("launch k(1)", "expected KERNEL<<<GRID, BLOCK>>>"),
    ("launch k<<<0, 1>>>()", "grid size 0 along x is outside 1 to 2147483647"),
    ("launch k<<<1, -4>>>()", "block size -4 along x is outside 1 to 1024"),
    ("launch k<<<(1, 70000), 1>>>()", "grid size 70000 along y is outside 1 to 65535"),
    ("launch k<<<1, (1, 1, 65)>>>()", "block size 65 along z is outside 1 to 64"),
    ("launch k<<<1, (32, 64)>>>()", "at most 1024 threads, not 2048"),
    ("launch k<<<1, (1, 1, 1, 1)>>>()", "block has 4 dimensions; give one to three"),
    ("launch k<<<1, 1.5>>>()", "1.5 is not an integer"),
    ("launch k<<<1, 1, -8>>>()", "-8 bytes of dynamic shared memory"),
    ("launch k<<<1, 1>>>(a = i33[1])", "i33 is not an array type; the types are i8, i16"),
    ("launch k<<<1, 1>>>(a = i32[])", "i32[] is empty"),
    ("launch k<<<1, 1>>>(a = i32[0])", "an array has 1 to 67108864 elements, not 0"),
    ("launch k<<<1, 1>>>(a = f32[1.5])", "[1.5] is a length and must be an integer"),
    ("launch k<<<1, 1>>>(a = i32[1 2])", "expected `,` or `]` in i32[...], found `2])`"),
    ("launch k<<<1, 1>>>(a = i32[] = iota)", "i32[] needs a length unless a file follows"),
    ("launch k<<<1, 1>>>(a = i32[4] = random(1, 2))", "random takes a seed, or a seed and two bounds"),
    ("launch k<<<1, 1>>>(a = )", "expected a number or an array"),
    ("launch k<<<1, 1>>>(a = 1 b = 2)", "expected `,` between arguments"),
    ("launch k<<<1, 1>>>(a = 1, a = 2)", "argument a is given twice"),
    ("launch k<<<1, 1>>>() trailing", "`trailing` after the end of the comment"),
    ("expect out = i32[1]", "expect comes before any launch"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), BAD_TEXT)
def test_text_that_cannot_be_read(statement: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_launches(f"\n// qdbg: {statement}", "k.cu")
    assert str(caught.value).startswith("k.cu:2: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("expect nothing = i32[1]", "expect nothing names no array of the launch; it has a, b, out"),
        ("expect out = i32[1, 2]", "expect out has 2 values and the array 1"),
        ("expect out = u32[1]", "expect out is uint32 and the array int32"),
        ("expect out = 5", "expect out needs an array; write out = i32[5]"),
        ("expect out ~ i32[1] ulp 2", "takes a float array"),
        ("expect out ~ f32[1]", "expected `ulp`"),
    ],
)
def test_bad_expectations(expect: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        bound(f"// qdbg: launch {DOT_LAUNCH}\n// qdbg: {expect}")
    assert str(caught.value).startswith(("dot.cu:2: ", "<source>:2: "))
    assert message in str(caught.value)


BAD_ARGUMENTS = [
    ("a = i32[1], b = i32[1], out = i32[1]", "no value for n of dot; add n"),
    ("a = i32[1], b = i32[1], out = i32[1], n = 1, m = 2", "dot has no parameter m; it has a, b, out, n"),
    ("i32[1], i32[1], i32[1], 1, 2", "dot takes 4 arguments, not 5"),
    ("i32[1], i32[1]", "no value for out, n of dot"),
    ("a = i32[1], b = i32[1], out = i32[1], n = i32[3]", "n is a single .u32, not a pointer"),
    ("a = i32[1], b = i32[1], out = i32[1], n = 5000000000", "n = 5000000000 is out of range"),
    ("a = i32[1], b = i32[1], out = i32[1], n = 1.5", "n = 1.5 is not an integer"),
    ("a = i32[3000000000, 1], b = i32[1], out = i32[1], n = 1", "i32 holds -2147483648 to 2147483647"),
    ("a = f32[1e39, 1], b = i32[1], out = i32[1], n = 1", "1e39 is out of range: the largest f32"),
    ("a = f32[] = @no.npy, b = i32[1], out = i32[1], n = 1", "no.npy does not exist"),
    ("a = i32[1], b = i32[9000], out = i32[1], n = 1",
     "needs 36036 bytes of memory (of which b takes 36000) and the machine has 16384"),
    ("a = i32[2040], b = i32[2048], out = i32[1], n = 1",
     "needs 16388 bytes of memory (of which b takes 8192, 32 the gaps between arrays, where an index past an "
     "end faults) and the machine has 16384; use smaller arrays"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments(arguments: str, message: str) -> None:
    source = cuda(f"// qdbg: launch dot<<<1, 4>>>({arguments})")
    with pytest.raises(LaunchError) as caught:
        bind(source, launch_for(source), max_threads=32, memory_bytes=16384)
    assert str(caught.value).startswith("dot.cu:1: ")
    assert message in str(caught.value)


def test_block_larger_than_the_machine() -> None:
    source = cuda("// qdbg: launch dot<<<1, 64>>>()")
    with pytest.raises(LaunchError, match="a block of 64 threads is larger than the machine's 32"):
        bind(source, launch_for(source), max_threads=32)


def test_required_block_size() -> None:
    ptx = ".entry k(.param .u64 x) .reqntid 8, 1, 1 { ret; }"
    with pytest.raises(LaunchError, match="requires a block of"):
        bound("// qdbg: launch k<<<1, 4>>>(x = i32[1])", ptx, k=("x",))


def test_a_file_without_a_launch_shows_the_comment_to_write() -> None:
    source = cuda("")
    with pytest.raises(LaunchError) as caught:
        bind(source, launch_for(source))
    message = str(caught.value)
    assert message.startswith("dot.cu: nothing says how to launch dot; write a comment such as")
    comment = message.split("`")[1]
    assert bound(comment).threads == 32, "the comment that is proposed works"


def test_which_kernel() -> None:
    two = ".entry first() { ret; } .entry second() { ret; }"
    source = cuda("", two, first=(), second=())
    with pytest.raises(LaunchError, match=r"2 kernels \(first, second\); choose one with --kernel"):
        bind(source, launch_for(source))
    assert bind(source, launch_for(source, "second")).kernel.name == "second"
    with pytest.raises(LaunchError, match="there is no kernel third; the file has first, second"):
        bind(source, launch_for(source, "third"))
    source = cuda(
        "// qdbg: launch first<<<1, 1>>>()\n// qdbg: launch second<<<1, 2>>>()", two, first=(), second=()
    )
    assert bind(source, launch_for(source, "second")).block == (2, 1, 1)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"grid": "1,2,3,4"}, "--grid 1,2,3,4: grid has 4 dimensions"),
        ({"grid": "x"}, "--grid x: expected a number, found `x`"),
        ({"block": "0"}, "--block 0: block size 0 along x"),
        ({"block": "4;"}, "--block 4;: `;` after the end"),
        ({"shared": -1}, "--shared -1: a negative number of bytes"),
        ({"args": [("a", "i32[1")]}, "--arg a: expected `,` or `]`"),
        ({"args": [("a", "i32[1] 5")]}, "--arg a: `5` after the end"),
    ],
)
def test_bad_overrides(overrides: dict[str, object], message: str) -> None:
    (launch,) = parse_launches(f"// qdbg: launch {DOT_LAUNCH}")
    with pytest.raises(LaunchError) as caught:
        with_overrides(launch, **overrides)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_unknown_argument_of_the_command_line() -> None:
    source = cuda(f"// qdbg: launch {DOT_LAUNCH}")
    launch = with_overrides(launch_for(source), args=[("q", "5")])
    with pytest.raises(LaunchError, match=r"^--arg q: dot has no parameter q; it has a, b, out, n$"):
        bind(source, launch)
