"""A small launch written out by hand, PTX and machine program both, for tests of the debugger.

`countdown`: each thread adds 1 + 2 + ... + (tid + 1) in a loop, so that lanes leave it one by one, and
stores the sum: thread t stores the triangular number (t + 1)(t + 2) / 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qdbg.compiler.machine.config import TINY
from qdbg.compiler.machine.isa import LANE_INDEX, Cond, Instr, Op, Pattern, Program, Reg
from qdbg.compiler.ptx.parser import parse
from qdbg.compiler.source import Source
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.history import History
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import bind, launch_for
from qdbg.runtime.launcher import Image
from qdbg.runtime.session import Session

PTX = """\
.version 6.5
.target sm_75
.address_size 64
.file 1 "countdown.cu"

.visible .entry countdown(
    .param .u64 countdown_param_0
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<5>;
    .loc 1 3 5
    ld.param.u64 %rd1, [countdown_param_0];
    mov.u32 %r1, %tid.x;
    add.s32 %r2, %r1, 1;
    mov.u32 %r3, 0;
$L_loop:
    .loc 1 6 9
    add.s32 %r3, %r3, %r2;
    .loc 1 5 5
    add.s32 %r2, %r2, -1;
    setp.ne.s32 %p1, %r2, 0;
    @%p1 bra $L_loop;
    .loc 1 7 5
    mul.wide.s32 %rd2, %r1, 4;
    cvta.to.global.u64 %rd3, %rd1;
    add.s64 %rd4, %rd3, %rd2;
    st.global.u32 [%rd4], %r3;
    ret;
}
// qdbg: launch countdown<<<1, 4>>>(out = i32[4])
// qdbg: expect out = i32[1, 3, 6, 10]
"""
CUDA = (
    "__global__ void countdown(int *out)",
    "{",
    "    int k = threadIdx.x + 1, sum = 0;",
    "    do {",
    "        /* next */",
    "        sum += k;",
    "    } while (--k);",
    "    out[threadIdx.x] = sum;",
    "}",
)
#: 1-based lines of the PTX text.
LINE = {
    text.split(";")[0].strip(): number
    for number, text in enumerate(PTX.splitlines(), start=1)
    if text.endswith(";")
}
SUM_LINE = LINE["add.s32 %r3, %r3, %r2"]
STORE_LINE = LINE["st.global.u32 [%rd4], %r3"]

_K, _SUM, _BASE = Reg(0), Reg(1), Reg(0, uniform=True)
_LOOPING, _LEFT = Pattern(1, 1), Pattern(0, 0)


def program(step: int = -1, again: Cond = Cond.LT | Cond.GT) -> Program:
    """The machine's version; other values of `step` and of the loop's condition `again` make it wrong."""
    code = (
        Instr(Op.ADD, _K, LANE_INDEX, immediate=1, ptx=(1, 2), result="%r2"),
        Instr(Op.ADD, _SUM, ptx=(3,), result="%r3"),
        Instr(Op.CLR, slot=0),
        Instr(Op.ADD, _SUM, _SUM, c=_K, pattern=_LOOPING, ptx=(4,), result="%r3"),
        Instr(Op.ADD, _K, _K, immediate=step, pattern=_LOOPING, ptx=(5,), result="%r2"),
        Instr(Op.CBR, a=_K, immediate_is_b=True, cond=again, pattern=_LOOPING, ptx=(6, 7)),
        Instr(Op.BR, target=3, skip=7, pattern=_LOOPING),
        Instr(Op.CLR, slot=0),
        Instr(Op.ST, a=LANE_INDEX, b=_SUM, c=_BASE, scale=2, pattern=_LEFT, ptx=(0, 8, 9, 10, 11)),
        Instr(Op.HALT, ptx=(12,)),
    )
    locations = {"%r1": LANE_INDEX, "%r2": _K, "%r3": _SUM}
    return Program(code, parameters={0: 0}, locations={n: r for n, r in locations.items() if r != LANE_INDEX})


def source(elements: int = 4) -> Source:
    """The kernel's file, as if the CUDA had been compiled, launched on an array of that many elements."""
    text = PTX.replace("i32[4]", f"i32[{elements}]")
    if elements < 4:
        text = text[: text.index("// qdbg: expect")]
    module = parse(text, "countdown.ptx")
    return Source(
        Path("countdown.cu"), CUDA, module, {"countdown": ("out",)}, text, {"countdown": "countdown"}
    )


def session(
    machine: Program | None = None,
    elements: int = 4,
    pass_limit: int = 10_000,
    engine: Emulator | None = None,
    history: History | None = None,
) -> Session:
    """A session that has been started, on a machine of four lanes."""
    kernel = source(elements)
    machine = machine or program()
    bound = bind(kernel, launch_for(kernel), TINY.lanes, 4 * TINY.words)
    words = np.frombuffer(bound.parameters, np.uint32).tolist()
    uniforms = {register: words[word] for register, word in machine.parameters.items()}
    allocated = tuple((a.address, a.size) for a in bound.allocations)
    image = Image(TINY, machine, uniforms, {}, allocated, bound.threads, (0, 0))
    made = Session(
        kernel,
        bound,
        machine,
        engine or Emulator(TINY),
        Interpreter(kernel.ptx, bound),
        image.vocabulary,
        TINY,
        image.ids,
        title="countdown.cu  countdown<<<1, 4>>>",
        geometry="tiny",
        pass_limit=pass_limit,
        history=history,
    )
    made.start()
    return made
