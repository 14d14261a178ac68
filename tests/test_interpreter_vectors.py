"""One-thread programs whose results NVIDIA's assembler folded, or the PTX ISA states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ptx_runner import source

from qdbg.runtime.interpreter import Interpreter, Unsupported
from qdbg.runtime.launch import bind, launch_for

VECTORS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data/fold_vectors.jsonl").read_text().splitlines()
]
#: Instructions of the vectors that the interpreter does not have yet.
UNSUPPORTED = {
    "rcp.approx.ftz.f32",
    "rsqrt.approx.f32",
    "ex2.approx.f32",
    "lg2.approx.f32",
    "sin.approx.f32",
    "cos.approx.f32",
}


def _needs_unsupported(vector: dict[str, Any]) -> bool:
    return any(text.split()[0] in UNSUPPORTED for text in vector["ins"])


def _start(vector: dict[str, Any]) -> Interpreter:
    loaded = source(f"// qdbg: launch t<<<1, 1>>>(o = u{vector['out_bits']}[1])\n{vector['ptx']}")
    return Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)))


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if not _needs_unsupported(v)], ids=lambda v: str(v["id"])
)
def test_result_is_as_folded(vector: dict[str, Any]) -> None:
    machine = _start(vector)
    machine.run(1000)
    assert f"{int(machine.array('o')[0]):#x}" == vector["expect"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if _needs_unsupported(v)], ids=lambda v: str(v["id"]))
def test_unsupported_instruction_is_refused_when_executed(vector: dict[str, Any]) -> None:
    machine = _start(vector)
    with pytest.raises(Unsupported, match=r"^test.ptx:\d+: `.*` is not supported yet; rewrite"):
        machine.run(1000)


def test_all_vectors_are_there() -> None:
    assert len(VECTORS) == 348
    assert sum(_needs_unsupported(v) for v in VECTORS) == 9
