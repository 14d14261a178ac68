"""Launches that go through transformers as one batch, against the same launches one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import PTX
from machines import SMALL
from numpy.typing import NDArray

from qdbg.cli import main
from qdbg.cli.failure import Exit
from qdbg.compiler.machine.vocabulary import Kind, Token, Vocabulary
from qdbg.runtime.batch import piece
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.engine import Wrong
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared, prepare
from qdbg.runtime.outcome import Outcome, PassLimit
from qdbg.runtime.stock import EngineError, StockEngine, recurrent_state
from qdbg.runtime.together import run_together

END = Vocabulary(SMALL)[Token(Kind.END)]
#: `countdown` of each thread adds 1 to tid + 1: launches whose prompts and traces differ in length.
BLOCKS = (2, 4, 1)


def triangular(count: int) -> list[int]:
    """1, 3, 6, 10, ...: what `countdown` must store."""
    return [(n + 1) * (n + 2) // 2 for n in range(count)]


@pytest.fixture
def launches(tmp_path: Path) -> list[Prepared]:
    """A launch for each of BLOCKS, with ever larger arrays, of which the file states what is expected."""
    ptx = PTX[: PTX.index("// qdbg: launch")]
    for number, block in enumerate(BLOCKS, 1):
        padding = f"i32[{', '.join(['7'] * (80 * number))}]"
        ptx += f"// qdbg: launch countdown<<<1, {block}>>>(out = {padding})\n"
        expected = [*triangular(block), *[7] * (80 * number - block)]
        ptx += f"// qdbg: expect out = i32[{', '.join(map(str, expected))}]\n"
    path = tmp_path / "countdown.ptx"
    path.write_text(ptx)
    return [prepare(path, LaunchOptions(number=n), SMALL) for n in range(1, len(BLOCKS) + 1)]


@dataclass(frozen=True, eq=False)
class Pass:
    """What a forward pass left behind: token, margin, recurrent state of every linear-attention layer."""

    token: int
    margin: float | None
    state: list[NDArray[np.float32]]


def left_behind(engine: StockEngine, token: int, margin: float | None, cache: Any, row: int) -> Pass:
    kinds = engine.model.config.layer_types
    layers = [i for i, kind in enumerate(kinds) if kind == "linear_attention"]
    return Pass(token, margin, [recurrent_state(cache, layer, row).copy() for layer in layers])


def alone(engine: StockEngine, ids: list[int]) -> Iterator[Pass]:
    """Every pass of a launch that has the model to itself."""
    token = engine.prefill(ids)
    yield left_behind(engine, token, engine.margin(), engine._cache, 0)
    while token != END:
        token = engine.step()
        yield left_behind(engine, token, engine.margin(), engine._cache, 0)


def emulated(ids: list[int]) -> list[int]:
    """The tokens of a launch, from the architecture without a model."""
    emulator = Emulator(SMALL)
    tokens = [emulator.prefill(ids)]
    while tokens[-1] != END:
        tokens.append(emulator.step())
    return tokens


def together(engine: StockEngine, prompts: list[list[int]]) -> list[list[Pass]]:
    """Every pass of launches that share it."""
    rows = engine.batch(prompts)
    batch = rows[0]._batch
    passes: list[list[Pass]] = [[] for _ in rows]
    first = True
    while any(row.open for row in rows):
        for number, row in enumerate(rows):
            if row.open:
                token = row.prefill(prompts[number]) if first else row.step()
                seat = batch._seated.index(row)
                passes[number].append(left_behind(engine, token, row.margin(), batch._cache, seat))
        first = False
        for row, made in zip(rows, passes, strict=True):
            if made[-1].token == END:
                row.close()
    return passes


@pytest.mark.stock
@pytest.mark.parametrize(("dtype", "which"), [("float32", slice(None)), ("bfloat16", slice(None, None, 2))])
def test_a_batch_is_what_its_launches_are_alone(
    small_checkpoint: Path, launches: list[Prepared], dtype: str, which: slice
) -> None:
    """Tokens, margins and recurrent states are the same bits at every pass: padding disturbs nothing, nor
    do launches that are over.
    """
    engine = StockEngine(small_checkpoint, dtype)
    prompts = [launch.image.ids for launch in launches[which]]
    lengths = [len(ids) for ids in prompts]
    assert max(lengths) - min(lengths) > piece(len(prompts)), "a piece of padding only"
    assert not any(engine.padding in ids for ids in prompts)
    shared = together(engine, prompts)
    assert len({len(passes) for passes in shared}) == len(prompts), "they end one after the other"
    for ids, passes in zip(prompts, shared, strict=True):
        for number, (single, row) in enumerate(zip(alone(engine, ids), passes, strict=True), 1):
            assert (row.token, row.margin) == (single.token, single.margin), f"pass {number}"
            for mine, theirs in zip(single.state, row.state, strict=True):
                np.testing.assert_array_equal(theirs.view("u4"), mine.view("u4"), f"pass {number}")


@pytest.mark.stock
def test_run_together(stock_small: StockEngine, launches: list[Prepared]) -> None:
    """In the order in which they end, each with its own result; one of them within too few passes."""
    ended = list(run_together(launches, stock_small, 30))
    assert [e.number for e in ended] == sorted(range(len(BLOCKS)), key=lambda n: BLOCKS[n])
    results = {e.number: e.result for e in ended}
    longest = BLOCKS.index(max(BLOCKS))
    assert isinstance(results.pop(longest), PassLimit)
    for result in results.values():
        assert isinstance(result, Outcome)
        assert (result.exact, result.expected, result.trap) == (True, True, None)


@pytest.mark.stock
def test_verify_a_batch(stock_small: StockEngine, launches: list[Prepared]) -> None:
    """The first wrong token of each row, wherever it stands, and None where there is none."""
    prompts = [launch.image.ids for launch in launches]
    traces = [emulated(ids) for ids in prompts]
    assert stock_small.verify_batch(list(zip(prompts, traces, strict=True))) == [None] * len(BLOCKS)
    other = Vocabulary(SMALL)[Token(Kind.RESULT, 1000)]
    places = (0, len(traces[1]) - 1, None)
    wrong = [list(trace) for trace in traces]
    expected: list[Wrong | None] = []
    for trace, right, place in zip(wrong, traces, places, strict=True):
        if place is not None:
            trace[place] = other
        expected.append(None if place is None else Wrong(place, other, right[place]))
    read: list[tuple[int, int]] = []
    found = stock_small.verify_batch(
        list(zip(prompts, wrong, strict=True)), lambda done, total: read.append((done, total))
    )
    assert found == expected
    assert read == sorted(read)
    assert read[0] == (0, sum(map(len, prompts)) + sum(len(t) - 1 for t in traces))


@pytest.mark.stock
def test_kernels_in_bfloat16(small_checkpoint: Path, stock_small: StockEngine) -> None:
    """Division in divergent lanes, shared memory between barriers: every token as in float32."""
    kernels = Path(__file__).parent.parent / "kernels"
    files = [kernels / "divergent" / "gcd.cu", kernels / "reduction" / "block_max.cu"]
    prompts = [prepare(file, LaunchOptions(), SMALL).image.ids for file in files]
    launches = [(prompt, emulated(prompt)) for prompt in prompts]
    assert stock_small.verify_batch(launches) == [None, None]
    assert StockEngine(small_checkpoint, "bfloat16").verify_batch(launches) == [None, None]


@pytest.mark.stock
def test_rows_go_in_turn_and_never_back(stock_small: StockEngine, launches: list[Prepared]) -> None:
    prompts = [launch.image.ids for launch in launches[:2]]
    first, second = stock_small.batch(prompts)
    with pytest.raises(ValueError, match="the prompt"):
        first.prefill(prompts[1])
    first.prefill(prompts[0])
    second.prefill(prompts[1])
    here = first.snapshot()
    first.restore(here)
    first.step()
    with pytest.raises(ValueError, match="go back"):
        first.restore(here)
    with pytest.raises(ValueError, match="in turn"):
        first.step()


# -- devices -----------------------------------------------------------------------------------------------


@pytest.mark.stock
@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        (
            "meta",
            "the device meta cannot run the model: The operator 'aten::x' is not here; try --device cpu",
        ),
        ("cpu", "torch cannot run the model: The operator 'aten::x' is not here; `qdbg doctor` says"),
    ],
)
def test_an_operation_that_the_device_lacks(
    stock_small: StockEngine, monkeypatch: pytest.MonkeyPatch, device: str, sentence: str
) -> None:
    """In torch's words of that, without its advice of several lines."""

    def lacks(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("The operator 'aten::x' is not here.\nAs a workaround ...")

    monkeypatch.setattr(stock_small.model, "forward", lacks)
    monkeypatch.setattr(stock_small, "device", device)
    with pytest.raises(EngineError) as error:
        stock_small.prefill([1])
    assert str(error.value).startswith(sentence)


def qdbg(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """Two launches that end well; the third traps at its fifth thread, which the array has no word for."""
    text = PTX + "// qdbg: launch countdown<<<1, 2>>>(out = i32[2])\n"
    path = tmp_path / "countdown.ptx"
    path.write_text(text + "// qdbg: launch countdown<<<1, 5>>>(out = i32[4])\n")
    return path


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("run", ("--device", "cpu"), "--device is for --engine stock; sparse"),
        ("run", ("--engine", "interpreter", "--dtype", "bfloat16"), "--dtype is for --engine stock"),
        ("verify", ("--dtype", "float32"), "--dtype is for --engine stock; sparse"),
        ("debug", ("--device", "cuda"), "--device is for --engine stock; sparse"),
        ("run", ("--engine", "stock", "--device", "tpu"), "'tpu' is not one of 'cpu', 'cuda', 'mps'"),
        ("run", ("--engine", "stock", "--dtype", "float16"), "'float32', 'bfloat16'"),
        ("run", ("--all", "--launch", "2"), "--launch"),
    ],
)
def test_wrong_usage(
    kernel: Path, capsys: pytest.CaptureFixture[str], command: str, options: tuple[str, ...], says: str
) -> None:
    assert qdbg(command, kernel, *options) == Exit.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


@pytest.mark.stock
@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_device_that_is_not_there(
    kernel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert qdbg(command, kernel, "--engine", "stock", "--device", "cuda") == Exit.USAGE
    err = capsys.readouterr().err
    assert err.startswith("qdbg: there is no device cuda for torch")
    assert err.count("\n") == 1


# -- every launch of a file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "engine", ["emulator", "interpreter", pytest.param("stock", marks=pytest.mark.stock)]
)
def test_run_all(kernel: Path, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    assert qdbg("run", kernel, "--all", "--engine", engine, "--json") == Exit.UNSUPPORTED
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["engine"] == engine
    first, second, third = report["launches"]
    assert [entry["launch"] for entry in report["launches"]] == [1, 2, 3]
    assert first["outputs"]["out"]["data"] == triangular(4)
    assert second["outputs"]["out"]["data"] == triangular(2)
    assert (first["expected"], second["expected"]) == (True, None)
    assert {first["exact"], second["exact"]} == {None if engine == "interpreter" else True}
    assert (third["trap"]["lane"], third["trap"]["reason"]) == (4, "out of bounds")
    assert report["error"] == f"launch 3: {third['error']}"
    assert err == f"qdbg: {report['error']}\n"


def test_run_all_goes_on_past_a_launch_that_cannot_be(
    kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = kernel.read_text()
    kernel.write_text("// qdbg: launch countdown<<<1, 4>>>(out = i32[4], extra = 3)\n" + text)
    assert qdbg("run", kernel, "--all", "--engine", "emulator") == Exit.USAGE
    out, err = capsys.readouterr()
    assert "failed" in out
    assert "i32[1, 3, 6, 10]" in out
    assert "2 of 4 launches ok" in out
    assert err.startswith("qdbg: launch 1: ")


def test_run_all_without_a_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "countdown.ptx"
    path.write_text(PTX[: PTX.index("// qdbg: launch")])
    assert qdbg("run", path, "--all") == Exit.USAGE
    assert "offer no launch" in capsys.readouterr().err
