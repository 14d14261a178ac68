"""What does not fit the machine is refused with both numbers; what the program may depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lowered import emulate, prompt_of
from ptx_runner import THREAD_ELEMENT, kernel

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.config import NANO
from qdbg.compiler.machine.isa import Op, Program
from qdbg.compiler.ptx.ir import PtxError
from qdbg.runtime.launcher import LaunchOptions, prepare

NESTED = """
    setp.gt.u32 %p1, %r1, 1; @!%p1 bra $A; add.u32 %r1, %r1, 1;
    setp.gt.u32 %p2, %r1, 5; @!%p2 bra $B; add.u32 %r1, %r1, 1;
    setp.gt.u32 %p3, %r1, 9; @!%p3 bra $C; add.u32 %r1, %r1, 1;
$C: xor.b32 %r1, %r1, 1;
$B: xor.b32 %r1, %r1, 2;
$A: st.global.u32 [%d2], %r1; ret;
"""

CUDA = "// qdbg: launch k<<<1, 4>>>(a = u32[4])\n__global__ void\nk(unsigned *a) {\n" + (
    "".join(f"a[threadIdx.x] = a[a[threadIdx.x] * {n} & 3] + {n};\n" for n in range(200)) + "}\n"
)


def compiled(body: str, arguments: str = "a = u32[4]", **limits: int) -> Program:
    text = kernel(THREAD_ELEMENT + body, arguments, block="4")
    return prompt_of(text, replace(NANO, **limits))[0]


def test_divergence_bits() -> None:
    """Three nested conditions need a bit each."""
    assert compiled(NESTED, slots=3).code
    with pytest.raises(LoweringError, match=r"needs 3 divergence bits a lane and the machine has 2;"):
        compiled(NESTED, slots=2)


def test_chains_of_conditions_reuse_bits_when_they_are_scarce() -> None:
    """An else-if chain of eight takes eight bits if it may, and two (with more tokens) if it must."""
    cases = "".join(
        f"setp.eq.u32 %p1, %r1, {n}; @!%p1 bra $C{n}; mul.lo.u32 %r1, %r1, {n + 3}; bra $END; $C{n}:"
        for n in range(8)
    )
    body = cases + "$END: st.global.u32 [%d2], %r1; ret;"
    generous, scarce = compiled(body, slots=8), compiled(body, slots=2)
    slots = [{i.slot for i in p.code if i.op is Op.CBR} for p in (generous, scarce)]
    assert len(slots[1]) == 2 < len(slots[0])
    assert sum(i.op is Op.CBR for i in generous.code) < sum(i.op is Op.CBR for i in scarce.code)


def test_memory_for_vector_registers() -> None:
    """Nine values of a thread take one register more than there are; the array leaves no room for it."""
    body = "".join(f"mul.lo.u32 %r{k}, %r1, {k + 9};" for k in range(2, 10))
    body += (
        "st.global.u32 [%d2], %r1;" + "".join(f"st.global.u32 [%d2], %r{k};" for k in range(2, 10)) + "ret;"
    )
    assert compiled(body, registers=9).spilled[1] == 0
    assert compiled(body, registers=8).spilled[1] in (16, 32)
    expected = r"8 registers a lane need (16|32) bytes of memory and the launch leaves 0 of 32;"
    with pytest.raises(LoweringError, match=expected):
        compiled(body, registers=8, words=8)


def test_uniform_registers() -> None:
    arguments = "a = u32[4];" + ";".join(f"a{n} = u32[1]" for n in range(10))
    body = "".join(f"ld.param.u64 %d4, [a{n}]; ld.global.u32 %r2, [%d4];" for n in range(10))
    assert compiled(body + "ret;", arguments, uniforms=16).code
    expected = r"they need 1\d uniform registers and the machine has 8; pass a pointer to them"
    with pytest.raises(LoweringError, match=expected):
        compiled(body + "ret;", arguments, uniforms=8)


def test_program_memory() -> None:
    body = "mad.lo.u32 %r1, %r1, %r1, %r0;" * 40 + "st.global.u32 [%d2], %r1; ret;"
    with pytest.raises(LoweringError, match=r"takes \d+ machine instructions and the machine holds 32;"):
        compiled(body, program=32)


def test_a_program_that_would_be_too_long_leaves_no_gaps() -> None:
    """A loop that is moved to a line of its own leaves a gap, which costs nothing while there is room."""
    body = "mov.u32 %r2, 5;" + "mad.lo.u32 %r1, %r1, %r1, %r0;" * 7
    body += "$TOP: xor.b32 %r1, %r1, %r2;" + "mad.lo.u32 %r1, %r1, %r1, %r0;" * 6
    body += "add.u32 %r2, %r2, -1; setp.ne.u32 %p1, %r2, 0; @%p1 bra $TOP; st.global.u32 [%d2], %r1; ret;"
    text = kernel(THREAD_ELEMENT + body, "a = u32[3, 1, 4, 1]", block="4")
    generous = emulate(text)
    assert any(i.op is Op.NOP for i in generous.program.code)
    dense = emulate(text, replace(NANO, program=len(generous.program.code) - 1))
    assert not any(i.op is Op.NOP for i in dense.program.code)
    assert dense.array("a").tolist() == generous.array("a").tolist() != [3, 1, 4, 1]
    assert len(dense.tokens) > len(generous.tokens)


def test_errors_begin_with_the_place_and_advise_what_can_help(tmp_path: Path) -> None:
    """A lower --opt helps only code that a compiler optimised."""
    body = "\n".join(["mad.lo.u32 %r1, %r1, %r1, %r0;"] * 600) + "st.global.u32 [%d2], %r1; ret;"
    text = kernel(THREAD_ELEMENT + body, "a = u32[4]", block="4")
    line = text[: text.index(".entry")].count("\n") + 1
    (tmp_path / "long.ptx").write_text(text)
    with pytest.raises(LoweringError) as error:
        prepare(tmp_path / "long.ptx", LaunchOptions()).image  # noqa: B018
    assert str(error.value).startswith(f"{tmp_path}/long.ptx:{line}: the kernel is too long")
    assert str(error.value).endswith("holds 512; split the kernel")
    (tmp_path / "long.cu").write_text(CUDA)
    for opt, advice in (
        (3, "; compile with a lower --opt or split the kernel"),
        (0, "holds 512; split the kernel"),
    ):
        with pytest.raises(LoweringError) as error:
            prepare(tmp_path / "long.cu", LaunchOptions(opt=opt)).image  # noqa: B018
        assert str(error.value).startswith(f"{tmp_path}/long.cu:3: the kernel is too long")
        assert str(error.value).endswith(advice)


def test_operands_that_selection_cannot_read_are_a_sentence() -> None:
    with pytest.raises(PtxError, match=r"^test.ptx:\d+: malformed operands for `setp.eq %p1, %r1, %r1;`$"):
        compiled("setp.eq %p1, %r1, %r1; ret;")


def test_irreducible_control_flow() -> None:
    body = """
        setp.eq.u32 %p1, %r1, 0; @%p1 bra $IN;
    $TOP: add.u32 %r1, %r1, 3;
    $IN: add.u32 %r1, %r1, 5; setp.lt.u32 %p2, %r1, 99; @%p2 bra $TOP; st.global.u32 [%d2], %r1; ret;
    """
    with pytest.raises(LoweringError, match="irreducible"):
        compiled(body)


def test_the_program_does_not_depend_on_arguments_or_data() -> None:
    def code(values: str, number: int) -> Program:
        text = kernel(THREAD_ELEMENT + NESTED, f"a = u32[{values}]; b = u32[{number}]", block="4")
        return prompt_of(text)[0]

    assert code("1, 2, 3, 4", 1) == code("9, 9, 9, 9", 7)


def test_every_instruction_names_the_ptx_that_it_does() -> None:
    program = compiled(NESTED)
    work = [i for i in program.code if i.op not in (Op.BR, Op.HALT, Op.NOP, Op.CLR)]
    assert all(i.ptx for i in work)
    load = next(i for i in work if i.op is Op.LD)
    assert load.result == "%r1"  # it computes its address too: mul.wide and add
    assert len(load.ptx) == 3
    assert program.locations["%r1"] == load.dst
    assert "%d3" not in program.locations
