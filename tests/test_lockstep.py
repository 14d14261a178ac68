"""Correct programs whose lanes part in unusual ways: the interpreter in step must call them exact.

The values that they store are worked out by hand and stand in the files' expectations.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qdbg.compiler.machine.config import NANO
from qdbg.compiler.machine.isa import Instr, Op
from qdbg.runtime import outcome
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Image, Prepared, prepare
from qdbg.runtime.session import Session

HEAD = """\
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
"""
TAIL = """
    ret;
}
"""
FIRST_TWO = "setp.lt.u32 %p1, %r1, 2;"
NOBODY = "setp.gt.u32 %p1, %r1, 200;"
STORE_3 = "mov.u32 %r2, 3; st.global.u32 [%rd3], %r2;"
#: name -> (body, threads, the array before and after).
PROGRAMS = {
    "load in some lanes": (
        f"mov.u32 %r2, 3; {FIRST_TWO} @%p1 ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;",
        [9, 9, 9, 9], [9, 9, 3, 3],
    ),
    "load in no lane": (
        f"mov.u32 %r2, 3; {NOBODY} @%p1 ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;",
        [9, 9, 9, 9], [3, 3, 3, 3],
    ),
    "store in some lanes": (
        f"mov.u32 %r2, 3; {FIRST_TWO} @!%p1 st.global.u32 [%rd3], %r2;", [9, 9, 9, 9], [9, 9, 3, 3],
    ),
    "trap in no lane": (f"{NOBODY} @%p1 trap; {STORE_3}", [0] * 4, [3] * 4),
    "division in no lane": (
        f"{NOBODY} mov.u32 %r2, 3; @%p1 div.u32 %r2, %r1, %r1; st.global.u32 [%rd3], %r2;", [0] * 4, [3] * 4,
    ),
    "barrier in some lanes": (f"{FIRST_TWO} @%p1 bar.sync 0; {STORE_3}", [0] * 4, [3] * 4),
    "exit in some lanes": (f"{FIRST_TWO} @%p1 exit; {STORE_3}", [0] * 4, [0, 0, 3, 3]),
    "return before a barrier": (f"{FIRST_TWO} @%p1 bra L; bar.sync 0; {STORE_3} L:", [0] * 4, [0, 0, 3, 3]),
    "a sum with memory behind a barrier that lanes miss": (
        "setp.gt.u32 %p1, %r1, 1; @%p1 bra L; bar.sync 0; ld.global.u32 %r2, [%rd3]; add.u32 %r2, %r2, %r1;"
        "st.global.u32 [%rd3], %r2; L:",
        [5, 5, 5, 5], [5, 6, 5, 5],
    ),
    "a barrier in a loop that lanes leave": (
        "mov.u32 %r3, 0; L: bar.sync 0; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;"
        + STORE_3,
        [0] * 4, [3] * 4,
    ),
    "a block before its predecessor": (
        "bra M; L: ld.global.u32 %r3, [%rd5]; add.u32 %r3, %r3, %r1; st.global.u32 [%rd5], %r3;"
        "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 2; @%p1 bra L; ret;"
        "M: mov.u32 %r5, 0; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4;"
        "st.global.u32 [%rd5], %r5; bra L;",
        [7] * 4, [0, 2, 4, 6],
    ),
}  # fmt: skip


def prepared(folder: Path, name: str) -> Prepared:
    body, before, after = PROGRAMS[name]
    file = folder / "k.ptx"
    launch = f"// qdbg: launch k<<<1, 4>>>(out = i32{before})\n// qdbg: expect out = i32{after}\n"
    file.write_text(launch + HEAD + body + TAIL)
    return prepare(file, LaunchOptions())


def started(launch: Prepared, image: Image) -> Session:
    session = Session(
        launch.source, launch.bound, image.program, Emulator(NANO),
        Interpreter(launch.source.ptx, launch.bound), image.vocabulary, NANO, image.ids,
    )  # fmt: skip
    session.start()
    return session


@pytest.mark.parametrize("name", PROGRAMS)
def test_correct_programs_are_exact(tmp_path: Path, name: str) -> None:
    launch = prepared(tmp_path, name)
    result = outcome.run(started(launch, launch.image))
    assert result.mismatch is None
    assert (result.exact, result.expected, result.status) == (True, True, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_reach_the_end_as_a_run_does(tmp_path: Path, name: str) -> None:
    launch = prepared(tmp_path, name)
    session = started(launch, launch.image)
    for _ in range(200):
        if session.ended:
            break
        session.step()
        assert not any(any(row.differs) for row in session.view().registers)
    assert session.status == "ended, exact"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("load in some lanes", Op.CBR),
        ("store in some lanes", Op.CBR),
        ("return before a barrier", Op.CBR),
        ("a barrier in a loop that lanes leave", Op.CBR),
    ],
)
def test_a_condition_one_off_is_found(tmp_path: Path, name: str, wrong: Op) -> None:
    """The machine compares with one more than it should, so that a lane takes the wrong path."""

    def off(instr: Instr) -> Instr:
        if instr.op is not wrong:
            return instr
        if instr.immediate_is_b:
            return replace(instr, immediate=instr.immediate + 1)
        return replace(instr, cond=~instr.cond & 0b0111 | instr.cond & 0b1000)

    launch = prepared(tmp_path, name)
    image = launch.image
    program = replace(image.program, code=tuple(off(i) for i in image.program.code))
    result = outcome.run(started(launch, replace(image, program=program)))
    assert (result.exact, result.status) == (False, 1)
