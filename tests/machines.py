"""Runs launches on the simulated circuits, many at once, for the hardware's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.hardware.simulate import Memory, Simulator
from qdbg.compiler.machine.build import Machine
from qdbg.compiler.machine.config import MachineConfig
from qdbg.compiler.machine.vocabulary import Kind, Token

#: Small enough to simulate fast, large enough for the programs of `generate`.
SMALL = MachineConfig(lanes=8, registers=32, uniforms=128, slots=8, program=512, words=512)


def run_circuits(
    built: Machine, prompts: Sequence[Sequence[Token]], limit: int = 5000
) -> tuple[list[list[Token]], Simulator]:
    """The tokens that each launch generates, END included, and the simulator as it stands then.

    limit: passes, the prompt's among them, after which launches that have not ended are left as they are.
    """
    vocabulary = built.vocabulary
    simulator = Simulator(built.netlist, built.schedule, len(prompts))
    queues = [[vocabulary[t] for t in prompt] for prompt in prompts]
    generated: list[list[Token]] = [[] for _ in prompts]
    pad, end = vocabulary[Token(Kind.PAD)], Token(Kind.END)
    for step in range(limit):
        now = [q[step] if step < len(q) else pad for q in queues]
        answers = simulator.step(now)
        for launch, queue in enumerate(queues):
            done = generated[launch][-1:] == [end]
            if step >= len(queue) - 1 and not done:
                token = vocabulary.token(int(answers[launch]))
                generated[launch].append(token)
                if token != end:
                    queue.append(int(answers[launch]))
        if all(g[-1:] == [end] for g in generated):
            break
    return generated, simulator


def memory_words(simulator: Simulator, launch: int, config: MachineConfig) -> NDArray[np.uint32]:
    """The memory of one launch, uint32 [words], read from the heads' rows."""
    tables: list[Memory] = [simulator.memories[f"memory{i}"] for i in range(-(-config.words // 64))]
    bits = np.concatenate([t.rows[launch, :, :32] for t in tables]).astype(bool)
    return np.packbits(bits, axis=1, bitorder="little").view("<u4")[: config.words, 0]
