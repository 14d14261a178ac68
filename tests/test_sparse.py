"""The sparse engine against transformers: ordinary random models, and the machine bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowered import prompt_of
from machines import SMALL
from test_emitted_model import KERNEL

from qdbg.compiler.machine.build import machine
from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.engine import Wrong
from qdbg.runtime.sparse.cache import NAME
from qdbg.runtime.sparse.engine import SparseEngine, SparseModel
from qdbg.runtime.sparse.model import State
from qdbg.runtime.sparse.pack import CheckpointFormatError, make_columns, make_lists
from qdbg.runtime.stock import StockEngine, recurrent_state

pytestmark = pytest.mark.stock

ORDINARY: dict[str, dict[str, Any]] = {
    "tied": {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "tie_word_embeddings": True},
    "wide": {"linear_num_key_heads": 3, "linear_num_value_heads": 3, "tie_word_embeddings": False},
}


def ordinary_model(path: Path, settings: dict[str, Any]) -> Any:
    """A small random model with every kind of layer, saved; returns transformers' own."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.manual_seed(1)
    config = Qwen3_5TextConfig(
        vocab_size=301, hidden_size=96, intermediate_size=130, num_hidden_layers=5,
        layer_types=[f"{kind}_attention" for kind in ("linear", "full", "linear", "linear", "full")],
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, linear_key_head_dim=16,
        linear_value_head_dim=16, max_position_embeddings=512, **settings,
    )  # fmt: skip
    model: Any = Qwen3_5ForCausalLM(config)
    model.eval()
    for parameter in model.parameters():  # the initial scale is too small to tell errors from noise
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(path)
    return model


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_model_gives_transformers_logits(tmp_path: Path, kind: str) -> None:
    import torch

    theirs = ordinary_model(tmp_path, ORDINARY[kind])
    ours = SparseModel(tmp_path)
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 301, 40).tolist()
    with torch.inference_mode():
        expected = theirs(torch.tensor([ids])).logits[0].numpy()
    for position, token in enumerate(ids):
        ours.feed([token])
        scale = np.abs(expected[position]).max()
        np.testing.assert_allclose(ours.logits, expected[position], atol=2e-4 * scale)


def test_machine_equals_stock_bit_for_bit(small_checkpoint: Path, stock_small: StockEngine) -> None:
    """Tokens, logits' margin and every recurrent state, at every pass."""
    ids = [machine(SMALL).vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    engine = SparseEngine(small_checkpoint)
    stock_small.prefill(ids)
    engine.prefill(ids)
    token = engine.step()
    assert token == stock_small.step()
    while machine(SMALL).vocabulary.token(token).kind is not Kind.END:
        token = engine.step()
        assert token == stock_small.step()
        assert engine.margin() == stock_small.margin()
        for layer in np.nonzero(engine.model.model.kinds == 1)[0]:
            np.testing.assert_array_equal(
                engine.model.layer(int(layer)), recurrent_state(stock_small._cache, int(layer), 0)
            )


def generated(engine: SparseEngine, ids: list[int]) -> list[int]:
    """The whole trace of a launch."""
    trace = [engine.prefill(ids)]
    while machine(SMALL).vocabulary.token(trace[-1]).kind is not Kind.END:
        trace.append(engine.step())
    return trace


def assert_equal_to_later_tokens(model: SparseModel, stepped: State) -> None:
    """The model's state is `stepped`; inputs that no convolution looks back at need not be kept."""
    for name, part in model.state._asdict().items():
        if name == "window":
            seen = (model.model.convolution[:, :-1] != 0).any(axis=1, keepdims=True)
            np.testing.assert_array_equal(part * seen, stepped.window * seen)
            assert seen.any()
        else:
            np.testing.assert_array_equal(part, getattr(stepped, name))


def test_verify_finds_the_first_wrong_token(small_checkpoint: Path, stock_small: StockEngine) -> None:
    """On both engines; a right trace passes and leaves the state that stepping leaves."""
    ids = [machine(SMALL).vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    engine = SparseEngine(small_checkpoint)
    trace = generated(engine, ids)
    stepped = engine.model.state
    assert engine.verify(ids, trace) is None
    assert_equal_to_later_tokens(engine.model, stepped)
    assert stock_small.verify(ids, trace) is None
    for index in (0, 1, len(trace) // 2, len(trace) - 1):
        wrong = trace.copy()
        wrong[index] += 1
        for checker in (engine, stock_small):
            assert checker.verify(ids, wrong) == Wrong(index, trace[index] + 1, trace[index])


@pytest.mark.parametrize("kind", ORDINARY)
def test_blocks_equal_single_tokens_on_ordinary_models(tmp_path: Path, kind: str) -> None:
    """Random weights: the arg-max after every token of a block, and the state at its end."""
    ordinary_model(tmp_path, ORDINARY[kind])
    ids = np.random.default_rng(8).integers(0, 301, 100).tolist()
    single, blocks = SparseModel(tmp_path), SparseModel(tmp_path)
    follows = [single.feed([token]) for token in ids]
    assert blocks.check(ids[:64], follows[:64]) is None
    assert blocks.check(ids[64:], follows[64:]) is None
    np.testing.assert_allclose(blocks.state.recurrent, single.state.recurrent, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(blocks.state.window, single.state.window, rtol=1e-3, atol=1e-4)


def test_snapshot_and_restore(small_checkpoint: Path) -> None:
    ids = [machine(SMALL).vocabulary[t] for t in prompt_of(KERNEL, SMALL)[2]]
    engine = SparseEngine(small_checkpoint)
    engine.prefill(ids)
    snapshot = engine.snapshot()
    first = [engine.step() for _ in range(12)]
    engine.restore(snapshot)
    assert [engine.step() for _ in range(12)] == first
    engine.restore(snapshot)
    assert engine.passes == 1
    assert [engine.step() for _ in range(12)] == first


def test_packed_form_is_kept_and_renewed(tmp_path: Path) -> None:
    theirs = ordinary_model(tmp_path, ORDINARY["wide"])
    ours = SparseModel(tmp_path)
    ours.feed([1, 2, 3])
    logits = ours.logits.copy()
    assert (tmp_path / NAME).exists()
    again = SparseModel(tmp_path)
    again.feed([1, 2, 3])
    np.testing.assert_array_equal(again.logits, logits)
    (tmp_path / NAME).write_bytes(b"not a zip file")
    theirs.lm_head.weight.data *= 2
    theirs.save_pretrained(tmp_path)
    doubled = SparseModel(tmp_path)
    doubled.feed([1, 2, 3])
    np.testing.assert_allclose(doubled.logits, 2 * logits, rtol=1e-6)


def array_alone(file: Path) -> None:
    with file.open("wb") as handle:
        np.save(handle, np.arange(4))


def folder_in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut short": lambda file: os.truncate(file, 1000),
    "an array alone": array_alone,
    "a folder": folder_in_its_place,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_packed_form_is_made_anew(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    ordinary_model(tmp_path, ORDINARY["wide"])
    SparseModel(tmp_path)
    before = {file.name for file in tmp_path.iterdir()}
    damage(tmp_path / NAME)
    SparseModel(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == before


def test_damaged_weights_are_one_sentence(tmp_path: Path) -> None:
    ordinary_model(tmp_path, ORDINARY["wide"])
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(CheckpointFormatError, match=r"model\.safetensors is damaged"):
        SparseModel(tmp_path)


def test_sparse_forms_hold_every_entry() -> None:
    rng = np.random.default_rng(2)
    matrices = []
    for shape, density in (((200, 30), 0.1), ((130, 20), 0.9), ((64, 5), 0.0)):
        matrix = rng.normal(size=shape).astype(np.float32) * (rng.random(shape) < density)
        matrices.append(matrix.astype(np.float32))
    columns, lists = (
        make_columns([matrices[0], None, *matrices[1:]]),
        make_lists([matrices[0], None, *matrices[1:]]),
    )
    for which, matrix in zip((0, 2, 3), matrices, strict=True):
        rebuilt = np.zeros_like(matrix)
        for c in range(columns.start[which], columns.start[which + 1]):
            for d in range(columns.dense_at[c], columns.dense_at[c + 1]):
                row = columns.dense_row[d]
                rebuilt[row : row + 64, columns.column[c]] += columns.dense_value[64 * d : 64 * d + 64]
            part = slice(columns.scatter_at[c], columns.scatter_at[c + 1])
            rebuilt[columns.scatter_row[part], columns.column[c]] += columns.scatter_value[part]
        np.testing.assert_array_equal(rebuilt, matrix)
        for row, content in enumerate(matrix):
            at = lists.first[which] + row
            part = slice(lists.at[at], lists.at[at + 1])
            np.testing.assert_array_equal(lists.entry[part], np.nonzero(content)[0])
            np.testing.assert_array_equal(lists.value[part], content[np.nonzero(content)])
