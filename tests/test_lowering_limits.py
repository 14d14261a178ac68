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
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare

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
    """Three nested conditions need a bit each, or two bits with more instructions."""
    assert len(compiled(NESTED, slots=3).code) < len(compiled(NESTED, slots=2).code)
    with pytest.raises(LoweringError, match=r"needs 2 divergence bits a lane and the machine has 1;"):
        compiled(NESTED, slots=1)


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
        (3, "; a lower --opt may help, or split the kernel"),
        (0, "holds 512; split the kernel"),
    ):
        with pytest.raises(LoweringError) as error:
            prepare(tmp_path / "long.cu", LaunchOptions(opt=opt)).image  # noqa: B018
        assert str(error.value).startswith(f"{tmp_path}/long.cu:3: the kernel is too long")
        assert str(error.value).endswith(advice)


def test_operands_that_selection_cannot_read_are_a_sentence() -> None:
    with pytest.raises(PtxError, match=r"^test.ptx:\d+: malformed operands for `setp.eq %p1, %r1, %r1;`$"):
        compiled("setp.eq %p1, %r1, %r1; ret;")


def test_a_loop_that_is_entered_at_two_places() -> None:
    body = """
        setp.eq.u32 %p1, %r1, 0; @%p1 bra $IN;
    $TOP: add.u32 %r1, %r1, 3;
    $IN: add.u32 %r1, %r1, 5; setp.lt.u32 %p2, %r1, 99; @%p2 bra $TOP; st.global.u32 [%d2], %r1; ret;
    """
    result = emulate(kernel(THREAD_ELEMENT + body, "a = u32[0, 1, 50, 95]", block="4"))
    assert result.array("a").tolist() == [5 + 8 * 12, 1 + 8 * 13, 50 + 8 * 7, 95 + 8]


def test_two_entries_within_a_loop_of_two_entries() -> None:
    """Lanes enter the outer loop at either end and the inner one at either end, 16 ways in all.

    $A adds 1 and goes to $C for odd values, else to $B; $B adds 10 and stays below 50; $C adds 4, returns to
    $B below 70 and to $A below 90.
    """
    body = """
        setp.gt.u32 %p1, %r0, 7; @%p1 bra $C;
        setp.gt.u32 %p1, %r0, 3; @%p1 bra $B;
    $A: add.u32 %r1, %r1, 1; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; @%p1 bra $C;
    $B: add.u32 %r1, %r1, 10; setp.lt.u32 %p1, %r1, 50; @%p1 bra $B;
    $C: add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, 70; @%p1 bra $B;
        setp.lt.u32 %p1, %r1, 90; @%p1 bra $A;
        st.global.u32 [%d2], %r1; ret;
    """

    def value(x: int, at: str) -> int:
        while True:
            if at == "A":
                x, at = x + 1, "B" if x & 1 else "C"
            elif at == "B":
                x, at = x + 10, "B" if x + 10 < 50 else "C"
            else:
                x += 4
                if x >= 90:
                    return x
                at = "B" if x < 70 else "A"

    start = [7 * n % 61 for n in range(12)]
    listed = ", ".join(map(str, start))
    result = emulate(kernel(THREAD_ELEMENT + body, f"a = u32[{listed}]", block="12"))
    assert result.array("a").tolist() == [value(x, "ABC"[n // 4]) for n, x in enumerate(start)]


@pytest.mark.parametrize("slots", [8, 4, 3])
def test_a_switch_takes_few_bits_however_many_cases_it_has(slots: int) -> None:
    """All comparisons come first, as compilers write them; every third case falls through to the next."""
    cases = range(16)
    body = "".join(f"setp.eq.u32 %p1, %r0, {n}; @%p1 bra $C{n};" for n in cases) + "bra $END;"
    for n in cases:
        body += f"$C{n}: mad.lo.u32 %r1, %r1, {n + 3}, {n}; st.global.u32 [%d2], %r1;"
        body += "" if n % 3 == 2 else "bra $END;"
    body += "$END: add.u32 %r1, %r1, 1; st.global.u32 [%d2], %r1; ret;"

    def value(n: int) -> int:
        value = 5
        while n in cases:
            value = value * (n + 3) + n
            n = n + 1 if n % 3 == 2 else -1
        return value + 1

    text = kernel(THREAD_ELEMENT + body, "a = u32[20] = 5", block="20")
    result = emulate(text, replace(NANO, slots=slots))
    assert result.array("a").tolist() == [value(n) for n in range(20)]


@pytest.mark.parametrize("slots", [8, 4, 3])
def test_lanes_wait_in_one_place_where_bits_are_scarce(slots: int) -> None:
    """Each condition sends lanes to a far block of its own, and none of these to another."""
    far = range(5)
    body = "".join(f"setp.eq.u32 %p1, %r0, {n}; @%p1 bra $F{n}; st.global.u32 [%d2], %r0;" for n in far)
    body += "setp.gt.u32 %p1, %r0, 8; " + "".join(f"@%p1 bra $F{n};" for n in far)
    body += "mul.lo.u32 %r1, %r1, 7; bra $END;"
    body += "".join(f"$F{n}: add.u32 %r1, %r1, {n + 1}; st.global.u32 [%d2], %r1; bra $END;" for n in far)
    body += "$END: add.u32 %r1, %r1, 100; st.global.u32 [%d2], %r1; ret;"
    text = kernel(THREAD_ELEMENT + body, "a = u32[12] = iota", block="12")
    wanted = [n + n + 1 if n in far else 7 * n if n <= 8 else n + 1 for n in range(12)]
    assert emulate(text, replace(NANO, slots=slots)).array("a").tolist() == [n + 100 for n in wanted]


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ("mov.u64 %d4, %clock64;", "the special register `%clock64`"),
        ("@%p1 add.u32 %r1, %r1, %globaltimer_lo;", "the special register `%globaltimer_lo`"),
        ("call _Z4stepi, (%r1);", "the function `step`"),
        ("add.rn.f32 %f1, %f1, %f1;", "`add.rn.f32`"),
        ("bar.sync 1, %r1;", "a barrier whose number of threads is known only when it runs"),
        ("bar.sync 1, 48;", "a barrier of 48 threads, which is no multiple of 32"),
        ("bar.arrive 1, 32;", "a barrier of 32 threads in a block whose last warp is not full"),
        ("bar.sync %r1, 32; bar.arrive %r1, 32;", "a barrier whose number is known only when it runs"),
        ("bar.sync 1, 32; bar.arrive 1, 64;", "barrier 1 for different numbers of threads"),
    ],
)
def test_what_is_lacking_has_a_name(body: str, lacks: str) -> None:
    block = "4" if "last warp" in lacks else "64"
    text = kernel(
        THREAD_ELEMENT + body + " st.global.u32 [%d2], %r1; ret;",
        "a = u32[64]",
        block=block,
        before=".extern .func _Z4stepi (.param .b32 x);",
    )
    assert set(prompt_of(text)[0].lacking.values()) == {lacks}


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
