"""Many tokens at once, for checking a proposed trace: layer by layer, 64 tokens side by side.

The tokens are known beforehand, so a matrix row meets 64 of them in one vectorised loop; only the delta
rule itself goes token by token.  Most rows do not even need that: a unit or a key that is closed for
all of the block's tokens is passed over (see `many.closed`).

The state afterwards is that of feeding one by one, as far as later tokens can see it.
"""

from __future__ import annotations

from qdbg.runtime.sparse.block_delta import delta_net
from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.elementary import ONE, clear
from qdbg.runtime.sparse.many import activate, alive, closed, rms_norms, row_product, scatter_to
from qdbg.runtime.sparse.model import AT, BLOCK
from qdbg.runtime.sparse.single import answer, attention
from qdbg.runtime.sparse.views import float32s, int64s, lists, number, uint32s


@compiled
def attend(t: int, layer: int, position: int, count: int) -> None:
    """Full attention, a token at a time."""
    hidden, shape = number(t, 1), (number(t, 1), BLOCK)
    xs, norms = float32s(t, AT.xs, shape), float32s(t, AT.norms, shape)
    x, normed = float32s(t, AT.x, (hidden,)), float32s(t, AT.normed, (hidden,))
    for i in range(count):
        for d in range(hidden):
            x[d], normed[d] = xs[d, i], norms[d, i]
        attention(t, layer, position + i)
        for d in range(hidden):
            xs[d, i] = x[d]


@compiled
def mlp(t: int, layer: int) -> None:
    """SwiGLU over the block."""
    hidden, count = number(t, 1), uint32s(t, AT.units, (number(t, 0),))[layer]
    xs, norms = float32s(t, AT.xs, (hidden, BLOCK)), float32s(t, AT.norms, (hidden, BLOCK))
    gate, high = float32s(t, AT.row, (BLOCK,)), float32s(t, AT.line, (BLOCK,))
    span = float32s(t, AT.span, (hidden, 2))
    gates, up, down = lists(t, AT.gate_rows), lists(t, AT.up), lists(t, AT.down)
    for unit in range(count):
        row = gates.first[layer] + unit
        if closed(gates, row, ONE, span):
            continue
        row_product(gates, row, norms, gate)
        if alive(gate):
            activate(gate)
            row_product(up, up.first[layer] + unit, norms, high)
            for i in range(BLOCK):
                gate[i] *= high[i]
            row = down.first[layer] + unit
            for k in range(down.at[row], down.at[row + 1]):
                weight, target = down.value[k], xs[down.entry[k]]
                for i in range(BLOCK):
                    target[i] += weight * gate[i]


@compiled
def right(t: int, token: int) -> bool:
    """Whether the model says what is expected after a token; if not, its answer is in the first token's
    place."""
    norms, normed = float32s(t, AT.norms, (number(t, 1), BLOCK)), float32s(t, AT.normed, (number(t, 1),))
    expected = int64s(t, AT.expected, (BLOCK,))[token]
    if expected < 0:
        return True
    for d in range(len(normed)):
        normed[d] = norms[d, token]
    found = answer(t)
    int64s(t, AT.tokens, (BLOCK,))[0] = found
    return bool(found == expected)


def check(t: int, count: int, position: int) -> int:
    """Feed the first `count` of the room's tokens.  Returns the first i at which another token follows
    than the room's `expected[i]` (the model's own is then in tokens[0]), or -1."""
    layers, hidden = number(t, 0), number(t, 1)
    xs, kinds = float32s(t, AT.xs, (hidden, BLOCK)), uint32s(t, AT.kinds, (layers,))
    norm1, norm2 = float32s(t, AT.norm1, (layers, hidden)), float32s(t, AT.norm2, (layers, hidden))
    tokens, embed = int64s(t, AT.tokens, (BLOCK,)), lists(t, AT.embed)
    for d in range(hidden):
        clear(xs[d])
    for i in range(BLOCK):  # a short block's last token goes on to its end, which widens no span
        scatter_to(embed, tokens[min(i, count - 1)], ONE, xs, i)
    for layer in range(layers):
        if kinds[layer]:
            rms_norms(t, norm1[layer])
            if kinds[layer] == 1:
                delta_net(t, layer, position, count)
            else:
                attend(t, layer, position, count)
        rms_norms(t, norm2[layer])
        mlp(t, layer)
    rms_norms(t, float32s(t, AT.final_norm, (hidden,)))
    for i in range(count):
        if not right(t, i):
            return i
    return -1
