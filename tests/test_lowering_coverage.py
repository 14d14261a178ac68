"""The machine has every integer instruction that the interpreter has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from lowered import emulate, prompt_of
from ptx_runner import THREAD_ELEMENT, kernel

from qdbg.compiler.ptx.ir import TYPE_BITS, Instruction
from qdbg.runtime.interpreter import forms
from qdbg.runtime.interpreter.atomics import _UPDATES

_FILES = {1: "%p", 8: "%h", 16: "%h", 32: "%r", 64: "%d"}


def _spellings(opcode: str) -> Iterator[str]:
    """Each type and combination of modifiers of an opcode in the interpreter's table, floats left out."""
    for types, makers in forms._MAKERS[opcode].items():
        if "f" in types:
            continue
        for slots, maker in makers:
            choices = [slot.rstrip("?").split("|") + [""] * slot.endswith("?") for slot in slots]
            for chosen in itertools.product(*choices):
                modifiers = (*filter(None, chosen), *types.split("."))
                form = maker(Instruction(0, 0, "", opcode, modifiers, ()))
                kinds = (form.result, *form.sources)
                operands = (f"{_FILES[TYPE_BITS[kind]]}{n}" for n, kind in enumerate(kinds))
                yield f"{'.'.join((opcode, *modifiers))} {', '.join(operands)};"


@pytest.mark.parametrize(
    "opcode", sorted(o for o, table in forms._MAKERS.items() if any("f" not in t for t in table))
)
def test_every_form_of_an_integer_instruction(opcode: str) -> None:
    lines = list(_spellings(opcode))
    assert lines
    for start in range(0, len(lines), 20):  # so few that the program is not too long
        body = "".join(lines[start : start + 20])
        assert prompt_of(kernel(body + "ret;", "a = u32[4]", block="4"))[0].lacking == {}


@pytest.mark.parametrize("space", ["", ".global", ".shared"])
def test_every_atomic_on_integers(space: str) -> None:
    for operation, (types, arity, _) in _UPDATES.items():
        for type_ in (t for t in types.split() if "f" not in t):
            file = _FILES[TYPE_BITS[type_]]
            values = ", ".join([f"{file}1", f"{file}2"][:arity])
            body = f"atom{space}.{operation}.{type_} {file}3, [%d1], {values}; ret;"
            assert prompt_of(kernel(body, "a = u32[4]", block="4"))[0].lacking == {}


def test_special_registers_that_depend_on_the_launch_alone() -> None:
    """%smid, %nsmid and %gridid of a device with one multiprocessor, and the bytes of shared memory."""
    names = ("%smid", "%nsmid", "%gridid", "%total_smem_size", "%dynamic_smem_size")
    body = "mov.u32 %r1, 0;" + "".join(
        f"mov.u32 %r2, {name}; mad.lo.u32 %r1, %r1, 10, %r2;" for name in names
    )
    text = kernel(
        THREAD_ELEMENT + ".shared .b32 s[2]; " + body + "st.global.u32 [%d2], %r1; ret;",
        "a = u32[1]",
        shared=4,
    )
    assert emulate(text).array("a").tolist() == [1000 + 20 * 10 + 4]
