"""The PTX parser on text that is wrong or cut short."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdbg.compiler.ptx.ir import Module, PtxError
from qdbg.compiler.ptx.lexer import tokenize
from qdbg.compiler.ptx.parser import parse

DATA = Path(__file__).parent / "data"
HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
DECLARATIONS = """
.entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .v4 .f32 %v;
"""


def message(text: str) -> str:
    with pytest.raises(PtxError) as error:
        parse(text, "k.ptx")
    return str(error.value)


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("add.u32 %r0, %r1, %x;", "this register is not declared, found '%x'"),
        ("add.u32 %r0, %r1, nothing;", "nothing is not declared"),
        ("bra nowhere;", "nowhere is not declared"),
        ("bra %r0;", "does not name one label"),
        ("brx.idx %r0, k;", "needs a register and a table"),
        ("L: L: ret;", "label L stands twice"),
        (".reg .b32 %r1;", "%r1 is declared twice"),
        ("ld.global.u32 %r0, [%rd0+%rd1];", "expected a constant, found '%rd1'"),
        ("mov.u32 %r0, 0x1FFFFFFFFFFFFFFFF;", "does not fit 64 bits"),
        ("mov.u32 %r0, 1/0;", "division by zero"),
        ("mov.u32 %r0 %r1;", "expected ','"),
        ("@%r0+ ret;", "expected the name of an instruction"),
        ("ld.global.u32 %r0, [%rd0;", "expected ']'"),
        (".unknown 5;", "unknown directive"),
        ("mov.u32 %r0, 12abc;", "'12abc;' is not PTX"),
        ("mov.u32 %v.q, 1;", "not a component"),
        ("add.s32 %r0, %r1;", "`add.s32 %r0, %r1;` takes 3 operands, not 2"),
        ("add.s32;", "takes 3 operands, not 0"),
        ("not.b32 %r0, %r1, %r2;", "takes 2 operands, not 3"),
        ("setp.eq.and.s32 %p0, %r1, %r2;", "takes 4 operands, not 3"),
        ("setp.eq.s32 %p0, %r1, %r2, %p1;", "takes 3 operands, not 4"),
        ("lop3.b32 %r0, %r1;", "takes 5 or 6 operands, not 2"),
        ("lop3.b32 %r0, %r1, %r1, %r1, %r2;", "needs an integer constant as operand 5"),
        ("ret %r0;", "takes no operands, not 1"),
        ("bar.sync;", "operands, not 0"),
        ("ld.global.u32 %r0, %r1;", "needs an address in brackets as operand 2"),
        ("st.global.u32 %r0, %r1;", "needs an address in brackets as operand 1"),
        ("add.u32 5, %r0, %r1;", "needs a register to write as operand 1"),
        ("add.u32 %r0, [%rd0], %r1;", "needs a register or a constant as operand 2"),
        ("mov.u32 %r0, 1.5;", "has a float constant where .u32 is needed"),
        ("mov.b32 %r0, 1.5;", "has a float constant where .b32 is needed"),
        ("mov.u32 %r0, 1 ? 2;", "expected ':'"),
        ("mov.u32 %r0, (.f32) 1;", "expected a constant"),
        (".shared .u32 s = 5;", "a .shared variable takes no initial value"),
        (".local .u32 s[2] = {5};", "a .local variable takes no initial value"),
        (".shared .u32 s; mov.u32 %r0, s[1];", "s is no array"),
        (".shared .u32 s[2]; ld.shared.u32 %r0, s[%r1];", "an index in a register is not supported"),
        ("ld.param.u32 %r0, [out+8];", "accesses bytes 8 to 11 of out, which has 8"),
        ("ld.param.u64 %rd0, [out-4];", "accesses bytes -4 to 3 of out, which has 8"),
    ],
)
def test_errors_name_line_and_text(statement: str, cause: str) -> None:
    text = HEAD + DECLARATIONS + statement + "\n}"
    found = message(text)
    line = (HEAD + DECLARATIONS).count("\n") + 1
    assert found.startswith(f"k.ptx:{line}: ")
    assert cause in found


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "the file ends while reading the module"),
        ("hello\n", "begins with .version"),
        (HEAD + ".global .u8 a[1] = {1, 2};", "more values than the variable"),
        (HEAD + ".global .u32 a = 1.0;", "a .u32 cannot have this initial value"),
        (HEAD + ".global .f32 a = 1;", "a .f32 cannot have this initial value"),
        (HEAD + ".shared .u32 a[2] = {1, 2};", "a .shared variable takes no initial value"),
        (HEAD + ".global .u64 a = nothing;", "names nothing, which is not declared"),
        (HEAD + ".global .u32 a; .global .u32 a;", "a is declared twice"),
        (HEAD + ".entry k() { } .entry k() { }", "k is defined twice"),
        (HEAD + ".entry k(.param .u33 a) { }", "expected a type"),
        (HEAD + ".entry k() { .reg .b32 %r<99999999>; }", "must be below"),
        (HEAD + ".global .align 3 .u32 a;", "power of two"),
        (HEAD + "/* never", "comment that begins here"),
        (HEAD + ".local .u32 a;", "only inside a function"),
        pytest.param(HEAD + ".global .u32 a = 1+" + "(" * 9999, "nested too deeply", id="nested"),
    ],
)
def test_errors_outside_of_functions(text: str, cause: str) -> None:
    assert cause in message(text)


@pytest.mark.parametrize(
    ("keep", "reading"),
    [
        ("mad.lo.s32 	%r2, %r25,", "the instruction mad in the body of .entry _Z1k1PPfPKii"),
        (".maxntid 128, 1", ".entry _Z1k1PPfPKii"),
        (".param .u64 _Z1k1PPfPKii_param_1,", "the parameters of .entry _Z1k1PPfPKii"),
        (".b8 table[16] = {0, 0,", "the initialiser of table"),
        ("// demoted variable", "the body of .entry _Z1k1PPfPKii, which begins at line"),
    ],
)
def test_a_file_cut_short_says_what_was_being_read(keep: str, reading: str) -> None:
    text = (DATA / "features_nvcc.ptx").read_text()
    found = message(text[: text.index(keep) + len(keep)])
    assert f"the file ends while reading {reading}" in found


SAMPLE = (DATA / "features_llvm.ptx").read_text()
TOKENS = tokenize(SAMPLE, "sample")[:-1]


def attempt(text: str) -> Module | PtxError:
    """What parsing gives; anything that is raised and is not a PtxError fails the test."""
    try:
        return parse(text)
    except PtxError as error:
        return error


def check(text: str) -> None:
    """The text is read, or the error names one of its lines."""
    found = attempt(text)
    assert isinstance(found, Module) or 1 <= found.line <= text.count("\n") + 1


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(TOKENS) - 1))
def test_a_missing_token_is_read_or_is_a_ptx_error(index: int) -> None:
    token = TOKENS[index]
    check(SAMPLE[: token.start] + SAMPLE[token.end :])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(TOKENS) - 1), st.integers(0, len(TOKENS) - 1))
def test_a_wrong_token_is_read_or_is_a_ptx_error(index: int, other: int) -> None:
    token = TOKENS[index]
    check(SAMPLE[: token.start] + TOKENS[other].text + SAMPLE[token.end :])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SAMPLE) - 2))
def test_half_a_file_is_a_ptx_error_unless_it_ends_between_functions(length: int) -> None:
    found = attempt(SAMPLE[:length])
    if isinstance(found, Module):
        assert len(found.functions) < 4 or SAMPLE[length:].strip() == ""
    else:
        assert found.line <= SAMPLE.count("\n", 0, length) + 1


@pytest.mark.parametrize(
    "statement",
    [
        "add.u32 %r0, %r1, 4294967295;",
        "add.u32 %r0, %r1, -2147483648;",
        "and.b32 %r0, %r1, -1;",
        "add.u64 %rd0, %rd1, 0xFFFFFFFFFFFFFFFF;",
        "mad.wide.u32 %rd0, %r1, 7, 0x100000000;",
        "mov.b32 %r0, 0f3F800000;",
        "mov.pred %p0, -1;",
        "setp.lt.or.s32 %p0|%p1, %r1, 3, !%p2;",
        "ld.param.u32 %r0, [out+4];",
        "barrier.sync 0, 32;",
        "lop3.b32 _, %r1, %r1, %r1, 0x80;",
    ],
)
def test_operands_at_their_limits_are_read(statement: str) -> None:
    assert len(parse(HEAD + DECLARATIONS + statement + "}").kernels[0].body) == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "cause"),
    [
        (".version 8.0", ".version 99.0", 1, "expected a PTX version such as 8.0, found '99.0'"),
        (".version 8.0", ".version x", 1, "expected a PTX version such as 8.0, found 'x'"),
        (".target sm_75", ".target foo", 2, "expected a target such as sm_75, found 'foo'"),
        (
            ".address_size 64",
            ".address_size 32",
            3,
            ".address_size 32 is not supported: qdbg runs 64-bit PTX",
        ),
    ],
)
def test_headers_that_make_no_sense(old: str, new: str, line: int, cause: str) -> None:
    assert message(HEAD.replace(old, new) + ".entry k() { ret; }").startswith(f"k.ptx:{line}: {cause}")
