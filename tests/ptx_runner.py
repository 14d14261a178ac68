"""Runs PTX text in the reference interpreter, for its tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.ptx.parser import parse
from qdbg.compiler.source import Source
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import bind, launch_for

HEADER = ".version 8.0\n.target sm_75\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %d<20>; "
    ".reg .f32 %f<10>; .reg .f64 %g<10>;"
)


def source(text: str, path: str = "test.ptx") -> Source:
    """PTX text as a source file; `// qdbg:` comments in it count."""
    module = parse(text, path)
    names = {k.name: tuple(p.name for p in k.parameters) for k in module.kernels}
    return Source(Path(path), None, module, names, text, {k.name: k.name for k in module.kernels})


def interpreter(text: str, lanes: int = 32) -> Interpreter:
    """An interpreter at the start of the first launch that the text offers."""
    loaded = source(text)
    return Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)), lanes)


def kernel(
    body: str, arguments: str, block: str = "1", grid: str = "1", before: str = "", shared: int = 0
) -> str:
    """PTX of a kernel `k` whose pointer parameters are named by the launch's `name = value` arguments."""
    names = [part.split("=")[0].strip() for part in arguments.split(";")]
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    return (
        f"// qdbg: launch k<<<{grid}, {block}, {shared}>>>({arguments.replace(';', ',')})\n"
        f"{HEADER}{before}\n.visible .entry k({parameters}) {{\n{REGISTERS}\n{body}\n}}\n"
    )


def run(body: str, arguments: str, **options: str | int) -> Interpreter:
    """Run such a kernel to its end."""
    machine = interpreter(kernel(body, arguments, **options))  # type: ignore[arg-type]
    machine.run(100_000)
    return machine


#: Loads the element of 32-bit array `a` for this thread into %r1; its address stays in %d2.
THREAD_ELEMENT = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 4;
    ld.param.u64 %d1, [a]; add.s64 %d2, %d1, %d3; ld.global.u32 %r1, [%d2];
"""


def apply(
    instruction: str, types: tuple[str, ...], result: str, *operands: NDArray[np.generic]
) -> NDArray[np.generic]:
    """`instruction` with `{d}`, `{0}`, `{1}`, ... on each row of the operands, one thread a row.

    `types` and `result` are PTX types; operands and result are unsigned arrays of those widths.
    """
    count = len(operands[0])
    lines = ["mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 512, %r1;"]
    files = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}
    names, arguments = [], []
    for place, (type_name, operand) in enumerate(zip((*types, result), (*operands, None), strict=True)):
        bits = _bits(type_name)
        register = f"{files[bits]}{place + 5}"
        names.append(register)
        label = "out" if operand is None else f"in{place}"
        arguments.append(f"{label} = u{bits}[{count}]")
        lines.append(
            f"mul.wide.u32 %d3, %r0, {bits // 8}; ld.param.u64 %d1, [{label}]; add.s64 %d2, %d1, %d3;"
        )
        if operand is not None:
            lines.append(f"ld.global.u{bits} {register}, [%d2];")
    lines.append(instruction.format(*names[:-1], d=names[-1]) + ";")
    lines.append(f"st.global.u{_bits(result)} [%d2], {names[-1]}; ret;")
    loaded = source(
        kernel("\n".join(lines), ";".join(arguments), block=str(min(count, 512)), grid=str(-(-count // 512)))
    )
    assert count <= 512 or count % 512 == 0
    machine = Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)))
    for place, operand in enumerate(operands):
        machine.array(f"in{place}")[:] = operand
    machine.run()
    return machine.array("out").copy()


def _bits(type_name: str) -> int:
    return int(type_name.lstrip("usbf"))
