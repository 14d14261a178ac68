"""One-thread programs whose results NVIDIA's assembler folded, or the PTX ISA states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ptx_runner import source

from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import bind, launch_for

VECTORS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data/fold_vectors.jsonl").read_text().splitlines()
]


def _start(vector: dict[str, Any]) -> Interpreter:
    loaded = source(f"// qdbg: launch t<<<1, 1>>>(o = u{vector['out_bits']}[1])\n{vector['ptx']}")
    return Interpreter(loaded.ptx, bind(loaded, launch_for(loaded)))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["id"]))
def test_result_is_as_folded(vector: dict[str, Any]) -> None:
    machine = _start(vector)
    machine.run(1000)
    assert f"{int(machine.array('o')[0]):#x}" == vector["expect"]


def test_all_vectors_are_there() -> None:
    assert len(VECTORS) == 348
