"""The claim itself: the checkpoint runs launches in transformers, where qdbg cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qdbg.cli import main

pytestmark = pytest.mark.stock

ROOT = Path(__file__).parent.parent
#: Makes `import qdbg` fail, then runs what README tells a sceptic to run.
WITHOUT_QDBG = "import sys; sys.modules['qdbg'] = None\n"


def snippet() -> str:
    """The Python code block of README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def qdbg(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_readme_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str) -> None:
    """Prompt, generation without qdbg, decode: 1*4 + 2*5 + 3*6 = 32."""
    kernel = ROOT / "kernels" / "dot.cu"
    assert qdbg("prompt", kernel, "-o", tmp_path / "dot.json") == 0
    code = WITHOUT_QDBG + snippet().replace("torch.float32", f"torch.{dtype}")
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Qwen3_5ForCausalLM" in run.stdout
    capsys.readouterr()
    assert qdbg("decode", kernel, tmp_path / "tokens.json") == 0
    assert json.loads(capsys.readouterr().out)["out"]["data"] == [32]


def test_run_on_the_stock_engine(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = ROOT / "kernels" / "divergent" / "nested.cu"
    assert qdbg("run", kernel, "--engine", "stock", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["engine"], report["exact"], report["expected"]) == ("stock", True, True)
    assert report["tokens"] == report["passes"]


def test_damaged_checkpoint_is_built_again_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDBG_CACHE", str(tmp_path))
    assert qdbg("build", "--json") == 0
    built = json.loads(capsys.readouterr().out)
    weights = Path(built["checkpoint"]) / "model.safetensors"
    with weights.open("r+b") as handle:
        handle.truncate(weights.stat().st_size // 2)
    assert qdbg("build", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sha256"] == built["sha256"]
    assert re.fullmatch(r"qdbg: .*damaged.*built again.*\n", err)
    assert qdbg("build", "--json") == 0
    assert capsys.readouterr().err == ""
