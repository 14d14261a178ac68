"""More values than registers: some live in memory, some are computed again, and results stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from lowered import Result, emulate, prompt_of
from programs import Case, programs
from ptx_runner import kernel
from test_lowering_random import agree, quick

from qdbg.compiler.lowering import LoweringError
from qdbg.compiler.machine.config import MEMORY_BASE, NANO
from qdbg.compiler.machine.isa import Op, Spill
from qdbg.runtime import outcome
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare
from qdbg.runtime.session import Session

MASK = 0xFFFFFFFF
MANY = 200
REGISTERS = f".reg .b32 %x<{MANY}>; .reg .b64 %y<{MANY}>;"
#: The element of `a` for this thread into %r1; its address stays in %d2.
START = f"""{REGISTERS}
    mov.u32 %r0, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r0, %r3, %r2, %r0;
    ld.param.u64 %d1, [a]; mad.wide.u32 %d2, %r0, 4, %d1; ld.global.u32 %r1, [%d2];
"""


def text(body: str, threads: int = 4, blocks: int = 1) -> str:
    """A kernel on an array `a` that holds 1, 2, 3, ..., one element a thread."""
    values = ", ".join(str(n + 1) for n in range(threads * blocks))
    return kernel(START + body, f"a = u32[{values}]", block=str(threads), grid=str(blocks))


def run(body: str, threads: int = 4, blocks: int = 1, **limits: int) -> Result:
    found = emulate(text(body, threads, blocks), replace(NANO, **limits))
    assert found.trap is None
    return found


def live(count: int) -> str:
    """`count` values of the thread alive at the same time, folded together in reverse order into %r1."""
    body = "".join(f"mad.lo.u32 %x{k}, %r1, {k + 3}, {k * k};" for k in range(count))
    return body + "".join(f"xor.b32 %r1, %r1, %x{k}; mul.lo.u32 %r1, %r1, 5;" for k in reversed(range(count)))


def folded(value: int, count: int) -> int:
    """What `live` computes."""
    values = [value * (k + 3) + k * k for k in range(count)]
    for one in reversed(values):
        value = (value ^ one) * 5 & MASK
    return value


def test_a_kernel_with_200_live_registers() -> None:
    """140 values of the thread's number and 60 of what it has loaded, each read once, the first one last."""
    sources = ["%r0" if k % 10 < 7 else "%r1" for k in range(MANY)]
    body = "".join(f"mul.lo.u32 %x{k}, {source}, {k + 3};" for k, source in enumerate(sources))
    body += "".join(f"xor.b32 %r1, %r1, %x{k};" for k in reversed(range(MANY)))
    found = run(body + "st.global.u32 [%d2], %r1; ret;", threads=8)

    def expected(thread: int) -> int:
        value = thread + 1
        for k in range(MANY):
            value ^= (thread if k % 10 < 7 else thread + 1) * (k + 3)
        return value

    assert found.array("a").tolist() == [expected(n) for n in range(8)]
    assert any(isinstance(place, Spill) for place in found.program.locations.values())


def test_200_registers_of_which_few_are_alive_at_once_fit_the_machine_as_it_is() -> None:
    body = "".join(
        f"mad.lo.u32 %x{k}, %r1, {k % 7 + 3}, {k % 5}; add.u32 %r1, %x{k}, %r1;" for k in range(MANY)
    )
    found = run(body + "st.global.u32 [%d2], %r1; ret;")

    def expected(value: int) -> int:
        for k in range(MANY):
            value = value * (k % 7 + 3) + k % 5 + value & MASK
        return value

    assert found.array("a").tolist() == [expected(n + 1) for n in range(4)]
    assert found.program.spilled[1] == 0


def test_what_a_loop_reads_stays_in_registers() -> None:
    """Forty values wait for a loop to end that keeps six others: nothing in the loop goes to memory."""
    body = "".join(f"mad.lo.u32 %x{k}, %r1, {k + 3}, {k};" for k in range(40))
    body += "mov.u32 %r4, %r1; mov.u32 %r5, %r1; mov.u32 %r6, 9; $AGAIN:"
    body += "mad.lo.u32 %r4, %r4, %r5, %r6; xor.b32 %r5, %r5, %r4; add.u32 %r6, %r6, -1;"
    body += "setp.ne.u32 %p1, %r6, 0; @%p1 bra $AGAIN; add.u32 %r1, %r4, %r5;"
    body += "".join(f"xor.b32 %r1, %r1, %x{k};" for k in range(40)) + "st.global.u32 [%d2], %r1; ret;"
    found = run(body, registers=16)

    def expected(value: int) -> int:
        r4, r5 = value, value
        for r6 in range(9, 0, -1):
            r4 = r4 * r5 + r6 & MASK
            r5 ^= r4
        total = r4 + r5 & MASK
        for k in range(40):
            total ^= value * (k + 3) + k & MASK
        return total

    assert found.array("a").tolist() == [expected(n + 1) for n in range(4)]
    code = found.program.code
    end = next(pc for pc, i in enumerate(code) if i.op is Op.UBR and i.target < pc)
    assert any(i.spill for i in code)
    assert not any(i.spill for i in code[code[end].target : end])


def test_64_bit_values_and_several_blocks() -> None:
    body = "cvt.u64.u32 %d5, %r1;" + "".join(f"mul.lo.u64 %y{k}, %d5, {k * 10**8 + 7};" for k in range(30))
    body += "".join(f"mul.lo.u64 %d5, %d5, 3; add.u64 %d5, %d5, %y{k};" for k in reversed(range(30)))
    body += "shr.u64 %d6, %d5, 32; cvt.u32.u64 %r1, %d6; st.global.u32 [%d2], %r1; ret;"
    found = run(body, threads=4, blocks=3)

    def expected(value: int) -> int:
        total = value
        for k in reversed(range(30)):
            total = total * 3 + value * (k * 10**8 + 7)
        return total >> 32 & MASK

    assert found.array("a").tolist() == [expected(n + 1) for n in range(12)]
    assert found.program.spilled[1] > 0


def test_lanes_on_two_paths_keep_values_of_their_own() -> None:
    body = live(12) + "setp.gt.u32 %p1, %r0, 1; @%p1 bra $ODD;"
    body += "".join(f"add.u32 %x{k}, %x{k}, %r0; add.u32 %r1, %r1, %x{k};" for k in range(12)) + "bra $END;"
    body += "$ODD:" + "".join(f"xor.b32 %x{k}, %x{k}, 77; add.u32 %r1, %r1, %x{k};" for k in range(12))
    body += (
        "$END:" + "".join(f"xor.b32 %r1, %r1, %x{k};" for k in range(12)) + "st.global.u32 [%d2], %r1; ret;"
    )
    found = run(body, registers=5)

    def expected(thread: int) -> int:
        value = folded(thread + 1, 12)
        values = [(thread + 1) * (k + 3) + k * k for k in range(12)]
        values = [v ^ 77 if thread > 1 else v + thread for v in values]
        value = value + sum(values) & MASK
        for one in values:
            value ^= one
        return value

    assert found.array("a").tolist() == [expected(n) for n in range(4)]


def test_stores_of_bytes_find_their_values() -> None:
    """A store of a byte is a pair of instructions that nothing may part."""
    body = "".join(f"mad.lo.u32 %x{k}, %r1, {k + 3}, {k};" for k in range(10))
    body += "".join(f"st.global.u8 [%d2+{k % 4}], %x{k}; add.u32 %r1, %r1, %x{k};" for k in range(10))
    body += "".join(f"add.u32 %r1, %r1, %x{k};" for k in range(9)) + "st.global.u8 [%d2+3], %r1; ret;"
    found = run(body, registers=4)

    def expected(value: int) -> int:
        values = [value * (k + 3) + k for k in range(10)]
        last = value + sum(values) + sum(values[:9])
        return int.from_bytes(bytes(v & 255 for v in (values[8], values[9], values[6], last)), "little")

    assert found.array("a").tolist() == [expected(n + 1) for n in range(4)]


def test_more_constants_than_uniform_registers() -> None:
    body = "".join(f"mad.lo.u32 %r1, %r1, {k + 1000}, %r0; add.u32 %r1, %r1, 7;" for k in range(20))
    body += "".join(f"mad.lo.u32 %r1, %r1, {k + 1000}, 7;" for k in range(20))
    found = run(body + "st.global.u32 [%d2], %r1; ret;", uniforms=8)

    def expected(thread: int) -> int:
        value = thread + 1
        for k in range(20):
            value = value * (k + 1000) + thread + 7 & MASK
        for k in range(20):
            value = value * (k + 1000) + 7 & MASK
        return value

    assert found.array("a").tolist() == [expected(n) for n in range(4)]


def test_more_uniform_values_than_uniform_registers() -> None:
    body = "ld.global.u32 %r4, [%d1];" + "".join(f"mad.lo.u32 %x{k}, %r4, {k + 3}, {k};" for k in range(30))
    body += "".join(f"xor.b32 %r4, %r4, %x{k}; mul.lo.u32 %r4, %r4, %x{29 - k};" for k in reversed(range(30)))
    body += "add.u32 %r1, %r1, %r4; st.global.u32 [%d2], %r1; ret;"
    found = run(body, uniforms=12)
    value = 1
    values = [k + 3 + k for k in range(30)]
    for k in reversed(range(30)):
        value = (value ^ values[k]) * values[29 - k] & MASK
    # Lanes store one after another, but all have read the first element before.
    assert found.array("a").tolist() == [n + 1 + value & MASK for n in range(4)]
    assert any(isinstance(p, Spill) and p.stride == 0 for p in found.program.locations.values())


def test_what_constants_and_lane_numbers_give_is_computed_again() -> None:
    """Of ten such values none is stored, whatever the registers."""
    body = "".join(f"mad.lo.u32 %x{k}, %r0, {k + 3}, {k};" for k in range(10))
    body += "".join(f"xor.b32 %r1, %r1, %x{k}; mul.lo.u32 %r1, %r1, %r1;" for k in reversed(range(10)))
    body += "".join(f"xor.b32 %r1, %r1, %x{k}; mul.lo.u32 %r1, %r1, %r1;" for k in range(10))
    found = run(body + "st.global.u32 [%d2], %r1; ret;", registers=4)

    def expected(thread: int) -> int:
        value = thread + 1
        for k in (*reversed(range(10)), *range(10)):
            value = (value ^ thread * (k + 3) + k) ** 2 & MASK
        return value

    assert found.array("a").tolist() == [expected(n) for n in range(4)]
    assert found.program.spilled[1] == 0


def test_registers_that_are_never_alive_together_share_memory() -> None:
    twice = live(20) + live(20)
    once = run(live(20) + "st.global.u32 [%d2], %r1; ret;", registers=6).program.spilled[1]
    found = run(twice + "st.global.u32 [%d2], %r1; ret;", registers=6)
    assert found.program.spilled[1] == once > 0
    assert found.array("a").tolist() == [folded(folded(n + 1, 20), 20) for n in range(4)]


def test_memory_shows_what_a_spilled_register_holds() -> None:
    body = live(12) + "st.global.u32 [%d2], %r1;"
    found = run(body + "".join(f"st.global.u32 [%d2], %x{k};" for k in range(12)) + "ret;", registers=4)
    spilled = {n: p for n, p in found.program.locations.items() if isinstance(p, Spill) and n[1] == "x"}
    assert spilled
    for name, place in spilled.items():
        k = int(name[2:])
        words = [found.state.memory[(place.address - MEMORY_BASE + place.stride * t) // 4] for t in range(4)]
        assert words == [(t + 1) * (k + 3) + k * k for t in range(4)]


def test_every_register_agrees_with_the_interpreter(tmp_path: Path) -> None:
    """Loads and stores of spilled registers belong to the PTX instruction that needs them."""
    guarded = "setp.ne.u32 %p1, %r0, 2;" + "".join(
        f"@%p1 add.u32 %x{k}, %x{k}, %r1; @!%p1 st.global.u32 [%d2], %x{k};" for k in range(12)
    )
    path = tmp_path / "k.ptx"
    path.write_text(text(live(12) + guarded + live(3) + "st.global.u32 [%d2], %r1; ret;"))
    prepared = prepare(path, LaunchOptions(), replace(NANO, registers=5))
    image = prepared.image
    assert image.program.spilled[1] > 0
    session = Session(
        prepared.source, prepared.bound, image.program, Emulator(image.config),
        Interpreter(prepared.source.ptx, prepared.bound), image.vocabulary, image.config, image.ids, "k", "",
        100_000,
    )  # fmt: skip
    session.start()
    assert outcome.run(session).mismatch is None


def test_limits_are_one_sentence_with_the_numbers() -> None:
    with pytest.raises(LoweringError) as error:
        prompt_of(
            text(live(120) + "st.global.u32 [%d2], %r1; ret;", threads=128), replace(NANO, program=2048)
        )
    assert "that do not fit the machine's 32 registers a lane need " in str(error.value)
    assert str(error.value).endswith(" of 16384; launch smaller blocks or split the kernel")


@quick
@given(programs(max_block=8, size=25, depth=3, also=("integers",)))
def test_random_programs_on_a_machine_with_few_registers(case: Case) -> None:
    agree(case, replace(NANO, registers=5, uniforms=16))
