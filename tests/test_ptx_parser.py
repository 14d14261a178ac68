"""The PTX parser on compiler output and on every form of the ISA's grammar."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from qdbg.compiler.ptx.ir import (
    Address,
    Arguments,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Register,
    Relocation,
    SourceLocation,
    Special,
    Symbol,
    Variable,
    Vector,
)
from qdbg.compiler.ptx.parser import parse

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.ptx"))
HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
DECLARATIONS = """
.global .b32 g[4];
.func (.reg .u32 r) helper (.reg .u32 a) { ret; }
.entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<8>, a; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %d<2>;
    .reg .v4 .f32 %v; .shared .b32 s[4];
"""


def body(statements: str) -> tuple[Instruction, ...]:
    """The instructions that `statements` become in a kernel with the declarations above."""
    return parse(HEAD + DECLARATIONS + statements + "\n}").kernels[0].body


def operand(text: str) -> Operand:
    """The second operand of a move."""
    return body(f"mov.b64 %rd0, {text};")[0].operands[1]


def variable(text: str) -> Variable:
    return parse(f"{HEAD}.global .u32 other; {text}").variables[-1]


# -- operands ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("0x1F", 31), ("-0x10", -16), ("0b101", 5), ("017", 15), ("0", 0), ("3U", 3),
        ("0xffffffffffffffff", 2**64 - 1), ("-9223372036854775808", 2**63), ("2+3*4", 14), ("2*(3+4)", 14),
        ("1<<4|1", 17), ("~0", 2**64 - 1), ("-7/2", -3), ("-7 % 2", 1), ("10-4-3", 3), ("-(3-5)", 2),
        ("6 & 3 ^ 1", 3), ("10 % 4", 2), ("7 % -2", 7), ("-7 / 2U", 2**63 - 4), ("2 - 3U", 2**64 - 1),
        ("-1 >> 1", -1), ("0x8000000000000000 >> 63", 1), ("(.s64)0x8000000000000000 >> 63", -1),
        ("(.s64) -7 / 2", -3), ("(.u64)-1/2", 2**63 - 1), ("(-1 & -1) / 2", 0), ("1 << 65", 2),
        ("1 << -1", -(2**63)),
        ("0xffffffffffffffff + 2", 1), ("0x7fffffffffffffff + 1", -(2**63)), ("-1 < 0", 1), ("-1 < 1U", 0),
        ("3 > 2 == 1", 1), ("2 >= 3", 0), ("2 <= 2", 1), ("2 != 2", 0), ("1 == 1U", 1), ("7 & 3 == 3", 1),
        ("5 || 0 && 0", 1), ("1 && 0 || 0", 0), ("!2 + 1", 1), ("!0", 1), ("~!0", 2**64 - 2),
        ("1 ? 2 : 3 ? 4 : 5", 2), ("0 ? 2 : 3 ? 4 : 5", 4), ("(1 ? -1 : 0U) / 2", 0), ("WARP_SZ / 3", 10),
    ],
)  # fmt: skip
def test_integer_constants(text: str, value: int) -> None:
    """The bits are those that ptxas 13.0 puts into the image of a .u64 with this initial value."""
    assert operand(text) == Immediate(value)


def test_float_constants_are_bits() -> None:
    assert operand("0f3F800000") == Immediate(0x3F800000, "f32bits")
    assert operand("-0f3F800000") == Immediate(0xBF800000, "f32bits")
    assert operand("0dBFF0000000000000") == Immediate(0xBFF0000000000000, "f64bits")
    assert operand("0.1") == Immediate(int.from_bytes(struct.pack("<d", 0.1), "little"), "f64bits")
    # A decimal is rounded where the instruction says f32: 0.1 to 3dcccccd, 1e39 to infinity.
    assert body("mov.f32 %f0, 0.1;")[0].operands[1] == Immediate(0x3DCCCCCD, "f32bits")
    assert body("add.f32 %f0, %f1, -1e39;")[0].operands[2] == Immediate(0xFF800000, "f32bits")
    assert body("cvt.f32.f64 %f0, 1.5;")[0].operands[1] == Immediate(0x3FF8000000000000, "f64bits")


def test_a_float_may_begin_with_its_point() -> None:
    assert operand(".5") == Immediate(0x3FE0000000000000, "f64bits")
    assert operand("-.25e1") == Immediate(0xC004000000000000, "f64bits")


def test_elements_of_arrays() -> None:
    """PTX ISA 6.4.2: `a[1]` is the address of an element in a mov, an access to it elsewhere."""
    first, second, third = body(
        ".shared .u16 h[4]; mov.u32 %r0, h[3];"
        "ld.shared.u16 %r0, h[1 + WARP_SZ / 32]; st.shared.u16 h[-1], %r0;"
    )
    assert first.operands[1] == Symbol("h", 6)
    assert second.operands[1] == Address(Symbol("h"), 4)
    assert third.operands[0] == Address(Symbol("h"), -2)


def test_lines_of_a_preprocessor_are_skipped() -> None:
    first, second = body('\n# 1 "k.cu"\nbar.sync 0;\n  #line 7 "k.cu"\nret;')
    assert (first.opcode, second.opcode) == ("bar", "ret")
    assert second.line == first.line + 2


def test_names() -> None:
    assert operand("%rd1") == Register("%rd1")
    assert operand("a") == Register("a")
    assert operand("%tid.x") == Special("%tid.x")
    assert operand("%clock64") == Special("%clock64")
    assert operand("WARP_SZ") == Special("WARP_SZ")
    assert operand("g") == Symbol("g")
    assert operand("g+8") == Symbol("g", 8)
    assert operand("g-8") == Symbol("g", -8)
    assert operand("helper") == Symbol("helper")
    assert operand("%v.w") == Register("%v.w")
    assert operand("%v.g") == Register("%v.y")
    assert operand("%v") == Vector(tuple(Register(f"%v.{part}") for part in "xyzw"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[%rd1]", Address(Register("%rd1"))),
        ("[%rd1+4]", Address(Register("%rd1"), 4)),
        ("[%rd1+-4]", Address(Register("%rd1"), -4)),
        ("[%rd1-0x10]", Address(Register("%rd1"), -16)),
        ("[ g + 12 ]", Address(Symbol("g"), 12)),
        ("[s]", Address(Symbol("s"))),
        ("[out]", Address(Symbol("out"))),
        ("[4096]", Address(None, 4096)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert body(f"ld.b64 %rd0, {text};")[0].operands[1] == address


def test_vectors_pairs_and_guards() -> None:
    load, compare, store, vote, sink = body("""
        ld.global.v2.u32 {%r1, _}, [%rd0];
        @!%p3 setp.lt.and.s32 %p0|%p1, %r0, -5, !%p2;
        @%p3 st.global.v4.f32 [%rd0], {%f0, 0f3F800000, %f2, %f3};
        shfl.sync.idx.b32 %r1|_, %r2, 0, 31, -1;
        atom.global.add.u32 _, [%rd0], 1;
    """)
    assert load.operands == (Vector((Register("%r1"), None)), Address(Register("%rd0")))
    assert compare.guard == Guard("%p3", negated=True)
    assert (compare.opcode, compare.modifiers) == ("setp", ("lt", "and", "s32"))
    assert compare.operands == (
        Pair(Register("%p0"), Register("%p1")), Register("%r0"), Immediate(-5), Register("%p2", negated=True),
    )  # fmt: skip
    assert store.guard == Guard("%p3")
    assert store.operands[1] == Vector(
        (Register("%f0"), Immediate(0x3F800000, "f32bits"), Register("%f2"), Register("%f3"))
    )
    assert vote.operands[0] == Pair(Register("%r1"), None)
    assert sink.operands[0] == Pair(None, None)


def test_calls() -> None:
    direct, bare, indirect = body("""
        call.uni (%r0), helper, (%r1);
        call helper;
        table: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
        call (%r0), %rd1, (%r1, 5), table;
    """)
    given = Arguments((Register("%r1"),))
    assert direct.operands == (Arguments((Register("%r0"),)), Symbol("helper"), given)
    assert bare.operands == (Symbol("helper"),)
    assert indirect.operands[1:] == (
        Register("%rd1"), Arguments((Register("%r1"), Immediate(5))), Label("table"),
    )  # fmt: skip


def test_text_is_the_source_on_one_line_without_comments() -> None:
    (add,) = body("add.u32 \t%r0, // first\n  %r1, /* second\n */ 3;")
    assert add.text == "add.u32 %r0, %r1, 3;"
    assert add.line == HEAD.count("\n") + DECLARATIONS.count("\n") + 1


# -- scopes and labels ------------------------------------------------------------------------------


def test_nested_scopes_hide_outer_names() -> None:
    text = (
        HEAD
        + """.entry k() {
        .reg .b32 %a; .reg .b32 %b;
        { .reg .b64 %a; mov.b64 %a, 1; mov.b32 %b, 2; { .reg .f32 %a; mov.f32 %a, 0f00000000; }
          mov.b64 %a, 3; }
        mov.b32 %a, 4;
        { .param .b32 p; st.param.b32 [p], %a; } { .param .b64 p; st.param.b64 [p], %a; }
    }"""
    )
    kernel = parse(text).kernels[0]
    first = [one.operands[0] for one in kernel.body]
    names = [one.name for one in first if isinstance(one, Register)]
    assert names[0] == names[3] != names[2] != names[4]
    assert [kernel.registers[name] for name in names] == ["b64", "b32", "f32", "b64", "b32"]
    assert names[4] == "%a"  # the outermost one keeps its name
    homes = [one.base for one in first if isinstance(one, Address)]
    assert homes[0] != homes[1]
    assert [(Symbol(one.name), one.size) for one in kernel.variables] == [(homes[0], 4), (homes[1], 8)]


def test_labels_are_local_to_their_scope() -> None:
    text = HEAD + ".entry k() { bra L; { bra L; L: exit; } { bra L; } L: ret; E: }"
    kernel = parse(text).kernels[0]
    targets = [
        kernel.labels[label.name] for one in kernel.body for label in one.operands if isinstance(label, Label)
    ]
    assert targets == [4, 2, 4]
    assert kernel.labels["E"] == 5  # behind the last instruction


def test_branch_tables_become_part_of_the_instruction() -> None:
    (jump, *_rest) = body("brx.idx %r0, t; A: ret; B: ret; t: .branchtargets A, B, A;")
    assert jump.operands == (Register("%r0"), Vector((Label("A"), Label("B"), Label("A"))))


def test_locations() -> None:
    instructions = body("""
        .loc 1 5 2
        mov.u32 %r0, 1;
        .loc 2 7 1, function_name $L__info_string0+4, inlined_at 1 5 2
        mov.u32 %r0, 2;
        .loc 1 0 2
        mov.u32 %r0, 3;
    """)
    assert [one.location for one in instructions] == [SourceLocation(1, 5), SourceLocation(2, 7), None]


# -- declarations -----------------------------------------------------------------------------------


def test_initialisers() -> None:
    assert variable(".global .s16 a[3] = {1, -2, 0x7f};").init == struct.pack("<3h", 1, -2, 127)
    assert variable(".global .s32 a[2][3] = {{1, 2}, {3}};").init == struct.pack("<6i", 1, 2, 0, 3, 0, 0)
    assert variable(".global .u8 a[2][2] = {1, 2, 3};").init == bytes([1, 2, 3, 0])
    assert variable(".const .f32 a[] = {0f3F800000, -1.5, 2., 0.1};").init == struct.pack(
        "<4f", 1, -1.5, 2, 0.1
    )
    assert variable(".global .f64 a = 0.1;").init == struct.pack("<d", 0.1)
    assert variable(".global .f32 a = 0d3FF8000000000000;").init == struct.pack("<f", 1.5)
    assert variable(".global .u64 a = -1;").init == b"\xff" * 8
    assert variable(".global .v4 .f32 a = {1.0, 2.0};").init == struct.pack("<4f", 1, 2, 0, 0)
    assert variable(".global .u32 a[4];").init is None


def test_initialisers_are_expressions() -> None:
    found = variable(".const .u16 a[] = {(1 << 4) | 3, (7), -5 / 2, 1 ? 8 : 9, WARP_SZ};")
    assert found.init == struct.pack("<HHhHH", 19, 7, -2, 8, 32)


def test_addresses_in_initialisers() -> None:
    pointers = variable(".global .u64 a[3] = {other, generic(other)+4, generic(other-4)};")
    assert pointers.init == bytes(24)
    assert pointers.relocations == (
        Relocation(0, "other", 0), Relocation(8, "other", 4), Relocation(16, "other", -4),
    )  # fmt: skip
    # PTX ISA 5.4.4: a mask in front picks a byte of the address.
    bytes_ = ", ".join(f"0x{0xFF << 8 * byte:X}(other+4)" for byte in range(8))
    packed = variable(f".global .u8 a[9] = {{9, {bytes_}}};")
    assert packed.init == bytes([9, *[0] * 8])
    assert packed.relocations == (Relocation(1, "other", 4),)


def test_shapes() -> None:
    dynamic = variable(".extern .shared .align 16 .b8 a[];")
    assert (dynamic.size, dynamic.align, dynamic.external, dynamic.space) == (0, 16, True, "shared")
    table = variable(".global .u16 a[3][5];")
    assert (table.size, table.align, table.count) == (30, 2, 15)
    scalar = variable(".const .attribute(.managed) .align 8 .f64 a;")
    assert (scalar.size, scalar.align, scalar.count) == (8, 8, None)
    vector = variable(".global .v2 .u32 a[3];")
    assert (vector.size, vector.align, vector.count) == (24, 8, 6)


def test_parameters_and_directives() -> None:
    text = (
        HEAD
        + """.visible .entry k(
        .param .u64 .ptr .global .align 16 p,
        .param .align 8 .b8 s[24], .param .f32 x
    ) .maxntid 128, 2, 1 .minnctapersm 2 .pragma "nounroll"; { ret; }
    .func (.param .align 4 .b8 r[8]) f(.reg .u32 a);
    .weak .func (.param .align 4 .b8 r[8]) f(.reg .u32 a) { mov.u32 a, 1; ret; }
    .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"""
    )
    kernel, function, external = parse(text).functions
    assert [(one.name, one.size, one.align, one.count) for one in kernel.parameters] == [
        ("p", 8, 8, None), ("s", 24, 8, 24), ("x", 4, 4, None),
    ]  # fmt: skip
    assert kernel.directives == {"maxntid": (128, 2, 1), "minnctapersm": (2,)}
    assert (kernel.is_entry, function.is_entry) == (True, False)
    assert [(one.name, one.size) for one in function.returns] == [("r", 8)]
    assert function.registers == {"a": "u32"}
    assert (len(function.body), function.directives) == (2, {})
    assert (external.name, external.body, external.directives) == ("vprintf", (), {"external": ()})


def test_module_header_and_debug_sections() -> None:
    module = parse(
        '.version 9.0\n.target sm_75, debug\n.address_size 64\n.file 1 "a/b.cu", 123, 456\n'
        ".section .debug_info {\n.b32 x+1\ninfo: .b8 0x40, 1\n.b64 $L__begin\n}\n.section .empty { }\n"
        ".visible .entry k\n{\nret;\n}\n"
    )
    assert (module.version, module.target, module.address_size) == ("9.0", "sm_75", 64)
    assert module.files == {1: "a/b.cu"}
    assert module.kernels[0].line == 11
    assert module.lines[11] == "{"


# -- compiler output --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_of_a_compilers_output_is_lost(path: Path) -> None:
    """Counted by a scan of the text, which knows nothing of the grammar."""
    text = path.read_text()
    module = parse(text, str(path))
    plain = re.sub(r"//[^\n]*", "", text)
    statements = re.findall(r"(?m)^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s[^;{}]*(?:\{[^}]*\}[^;{}]*)?)?;", plain)
    statements = [one for one in statements if ".callprototype" not in one and ".branchtargets" not in one]
    assert sum(len(one.body) for one in module.functions) == len(statements)
    assert [one.name for one in module.kernels] == re.findall(r"\.entry (\w+)", plain)
    assert sum(len(one.registers) for one in module.functions) == _declared_registers(plain)
    for function in module.functions:
        for instruction in function.body:
            first_word = instruction.text.split()[1 if instruction.guard else 0].rstrip(";")
            assert instruction.name == first_word
            assert first_word in module.lines[instruction.line - 1]


def _declared_registers(text: str) -> int:
    ranges = re.findall(r"\.reg\s+\.\w+\s+%?\w+<(\d+)>;", text)
    return sum(map(int, ranges)) + len(re.findall(r"\.reg\s+\.\w+\s+%?\w+;", text))


def test_demoted_and_relocated_variables_of_nvcc() -> None:
    module = _module("features_nvcc")
    known = {one.name: one for one in module.variables}
    assert known["table"].init == struct.pack("<4f", 1, -2.5, 3e10, 4)  # features.cu line 4
    assert known["counter"].init == struct.pack("<i", -7)
    assert known["grid2"].init == struct.pack("<6i", 1, 2, 3, 4, 5, 6)
    assert known["ptr"].relocations == (Relocation(0, "grid2", 16),)  # &grid2[1][1]
    kernel = module.kernels[0]
    shared = {one.name: one.size for one in kernel.variables if one.space == "shared"}
    assert sorted(shared.values()) == [24, 32 * 33 * 4]
    assert kernel.directives == {"maxntid": (128, 1, 1), "minnctapersm": (2,)}
    assert kernel.parameters[0].size == 24


def _module(stem: str) -> Module:
    return parse((DATA / f"{stem}.ptx").read_text(), f"{stem}.ptx")
