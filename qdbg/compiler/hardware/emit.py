"""Schedule -> weights: the tensors of a `Qwen3_5ForCausalLM`.

Scales.  The ballast makes every RMSNorm a multiplication by exactly 2**-20, so a weight of 2**20
reads a bit as 1.  Gates work at C = 128, where silu(128) is exactly 128 and silu(-128) exactly -0.
A stored row has a ballast of B = 2**40 in one of 64 channels: the gated norm divides by B/8, and an
output weight of B / (8 C^2) makes a stored bit 1 again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.hardware.heads import HEAD_SIZE, Head
from qdbg.compiler.hardware.netlist import Netlist, Unit
from qdbg.compiler.hardware.schedule import Schedule, is_attention
from qdbg.compiler.hardware.signals import Linear, Signal, total

Matrix = NDArray[np.float32]

GATE = 128.0
NORM_SCALE = 2.0**20
ROW_BALLAST = 2.0**40
READ_SCALE = ROW_BALLAST / (8 * GATE * GATE)
#: A_log of a head that never decays: exp(-exp(-8192) * anything) is exactly 1.
NO_DECAY = -8192.0
#: Logit of the tokens that only prompts use.
NEVER = -256
CONVOLUTION = 4
ATTENTION_HEAD = 32


class Emitter:
    """Writes linear forms into rows and columns of weight matrices."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        dimension, value = schedule.ballast[0]
        self.ballast_dimension = dimension
        self.constant = NORM_SCALE / value  # what the constant 1 weighs

    def row(self, form: Linear, factor: float = 1.0) -> Matrix:
        """The row that computes factor * form from the normalised residual stream."""
        row = np.zeros(self.schedule.hidden, np.float32)
        for signal, weight in form.terms.items():
            row[self.schedule.dimension(signal)] += weight * NORM_SCALE * factor
        row[self.ballast_dimension] += form.constant * self.constant * factor
        return row

    def conjunction(self, literals: Sequence[Linear]) -> Matrix:
        """The row whose silu is 128 where all literals hold, and exactly 0 elsewhere."""
        return self.row(2 * total(literals) - (2 * len(literals) - 1), GATE)

    def column(self, weights: Mapping[Signal, float], factor: float) -> Matrix:
        """The column that adds to signals."""
        column = np.zeros(self.schedule.hidden, np.float32)
        for signal, weight in weights.items():
            column[self.schedule.dimension(signal)] += weight * factor
        return column


def emit(netlist: Netlist, schedule: Schedule, vocabulary: int) -> Iterator[tuple[str, Matrix]]:
    """All tensors with their names in the checkpoint, layer by layer, float32 exact in bfloat16."""
    emitter = Emitter(schedule)
    hidden = schedule.hidden
    embedding = np.zeros((vocabulary, hidden), np.float32)
    for dimension, value in schedule.ballast:
        embedding[:, dimension] = value
    for token, signals in netlist.embeddings.items():
        for signal, content in signals.items():
            embedding[token, schedule.dimension(signal)] = content
    yield "model.embed_tokens.weight", embedding
    for layer in range(schedule.layers):
        if is_attention(layer):
            tensors = _attention(hidden)
        else:
            tensors = _delta_net(emitter, schedule.heads.get(layer, []))
        tensors |= _mlp(emitter, schedule.units.get(layer, []), schedule.erased.get(layer, []))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{norm}.weight"] = np.zeros(hidden, np.float32)
        for name, tensor in tensors.items():
            yield f"model.layers.{layer}.{name}", tensor
    yield "model.norm.weight", np.zeros(hidden, np.float32)
    output = np.tile(emitter.row(Linear(constant=NEVER)), (vocabulary, 1))
    for token, form in netlist.logits.items():
        output[token] = emitter.row(form)
    yield "lm_head.weight", output


def _mlp(emitter: Emitter, units: list[Unit], erased: list[Signal]) -> dict[str, Matrix]:
    hidden, width = emitter.schedule.hidden, emitter.schedule.intermediate
    gate, up = np.zeros((width, hidden), np.float32), np.zeros((width, hidden), np.float32)
    down = np.zeros((hidden, width), np.float32)
    for index, unit in enumerate(units):
        gate[index] = emitter.row(unit.gate, GATE)
        up[index] = emitter.row(unit.up)
        down[:, index] = emitter.column(unit.drives, 1 / GATE)
    for index, signal in enumerate(erased, start=len(units)):
        gate[index] = emitter.row(Linear(constant=1), GATE)
        up[index] = emitter.row(-signal)
        down[:, index] = emitter.column({signal: 1}, 1 / GATE)
    return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up, "mlp.down_proj.weight": down}


def _delta_net(emitter: Emitter, heads: list[Head]) -> dict[str, Matrix]:
    hidden, count = emitter.schedule.hidden, emitter.schedule.heads_per_layer
    inner = count * HEAD_SIZE
    projection = np.zeros((3, count, HEAD_SIZE, hidden), np.float32)  # q, k, v
    taps = np.zeros((3, count, HEAD_SIZE, 1, CONVOLUTION), np.float32)
    taps[..., -1] = 1
    gates = np.zeros((count, HEAD_SIZE, hidden), np.float32)
    beta = np.tile(emitter.row(Linear(constant=-1), GATE), (count, 1))
    decay = np.zeros((count, hidden), np.float32)
    a_log, dt_bias = np.full(count, NO_DECAY, np.float32), np.zeros(count, np.float32)
    out = np.zeros((hidden, count, HEAD_SIZE), np.float32)
    one = Linear(constant=1)
    for index, head in enumerate(heads):
        for part, rows in enumerate((head.read, head.write)):
            for row, literals in rows.items():
                projection[part, index, row] = emitter.conjunction(literals)
        for channel, data in head.data.items():
            projection[2, index, channel] = (
                emitter.conjunction(data.literals)
                if data.value is None
                else emitter.row(data.value, GATE * 2.0**data.shift)
            )
            taps[2, index, channel] = 0
            taps[2, index, channel, 0, -1 - data.tap] = 1
        projection[2, index, -1] = emitter.row(head.ballast or one, ROW_BALLAST)
        beta[index] = emitter.row(2 * head.enable - 1, GATE)
        if head.clear is not None or head.halve is not None:
            # softplus(-128) is 0: keep; softplus(0) is ln 2: halve; softplus(128): clear
            a_log[index], dt_bias[index] = 0, -GATE
            decay[index] = emitter.row(2 * (head.clear or Linear()) + (head.halve or Linear()), GATE)
        for channel, targets in head.out.items():
            gates[index, channel] = emitter.conjunction(head.gate.get(channel, ()))
            shift = head.data[channel].shift if channel in head.data else 0
            out[:, index, channel] = emitter.column(targets, READ_SCALE * 2.0**-shift)
    return {
        "linear_attn.in_proj_qkv.weight": projection.reshape(3 * inner, hidden),
        "linear_attn.conv1d.weight": taps.reshape(3 * inner, 1, CONVOLUTION),
        "linear_attn.in_proj_z.weight": gates.reshape(inner, hidden),
        "linear_attn.in_proj_b.weight": beta,
        "linear_attn.in_proj_a.weight": decay,
        "linear_attn.A_log": a_log,
        "linear_attn.dt_bias": dt_bias,
        "linear_attn.norm.weight": np.ones(HEAD_SIZE, np.float32),
        "linear_attn.out_proj.weight": out.reshape(hidden, inner),
    }


def _attention(hidden: int) -> dict[str, Matrix]:
    """A neutral layer: its output projection is 0."""
    size = ATTENTION_HEAD
    shapes = {"q_proj": (2 * size, hidden), "k_proj": (size, hidden), "v_proj": (size, hidden),
              "o_proj": (hidden, size), "q_norm": (size,), "k_norm": (size,)}  # fmt: skip
    return {f"self_attn.{name}.weight": np.zeros(shape, np.float32) for name, shape in shapes.items()}


def configuration(schedule: Schedule, vocabulary: int, pad: int, end: int) -> dict[str, Any]:
    """The `config.json` of the checkpoint, spelt out so that every engine reads the same."""
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": schedule.hidden,
        "intermediate_size": schedule.intermediate,
        "num_hidden_layers": schedule.layers,
        "layer_types": [
            "full_attention" if is_attention(layer) else "linear_attention"
            for layer in range(schedule.layers)
        ],
        "full_attention_interval": 4,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "initializer_range": 0.02,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": ATTENTION_HEAD,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "linear_conv_kernel_dim": CONVOLUTION,
        "linear_key_head_dim": HEAD_SIZE,
        "linear_value_head_dim": HEAD_SIZE,
        "linear_num_key_heads": schedule.heads_per_layer,
        "linear_num_value_heads": schedule.heads_per_layer,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 1 << 20,
        "partial_rotary_factor": 0.25,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
        "tie_word_embeddings": False,
        "use_cache": True,
        "pad_token_id": pad,
        "eos_token_id": end,
        "bos_token_id": None,
    }
