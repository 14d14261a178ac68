"""What a launch costs: its tokens by what they are for, and the instructions that were done with them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from qdbg.compiler.machine.vocabulary import Kind
from qdbg.runtime.interpreter import Fault, Unsupported
from qdbg.runtime.outcome import reference
from qdbg.runtime.trace import Event, Trace

if TYPE_CHECKING:
    from qdbg.runtime.suite import Proposal


class Purpose(StrEnum):
    """What a token is for."""

    VALUE = "results of one lane"
    UNIFORM = "results of all lanes"
    MORE = "more bits of large values"
    BRANCH = "branch bits"
    JUMP = "jumps"
    STORE = "stores"
    OLD = "words before an atomic or narrow store"
    STEP = "steps without a result"
    END = "traps and ends"


@dataclass(frozen=True)
class Cost:
    """Tokens by purpose, and PTX instructions that were issued: counted once a warp, and once a lane.

    A lane counts for an instruction that its warp issues for it, also where its guard is false.
    """

    purposes: Counter[Purpose] = field(default_factory=Counter)
    instructions: int = 0
    lane_instructions: int = 0

    @property
    def tokens(self) -> int:
        """Generated tokens in all."""
        return self.purposes.total()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.purposes + other.purposes,
            self.instructions + other.instructions,
            self.lane_instructions + other.lane_instructions,
        )


def cost(proposal: Proposal) -> Cost:
    """The cost of a launch that ran without a model."""
    image, session = proposal.prepared.image, proposal.session
    trace = Trace(image.program, image.vocabulary, image.threads)
    purposes = Counter(purpose(trace.feed(token)) for token in session.tokens)
    interpreter, limit = reference(session), proposal.verified.ptx_instructions
    lanes = 0
    with suppress(Fault, Unsupported):
        for event in islice(iter(interpreter.step, None), limit):
            lanes += int(np.count_nonzero(event.mask))
    return Cost(purposes, interpreter.instructions, lanes)


def purpose(event: Event) -> Purpose:
    """What a generated token is for."""
    match event.token.kind:
        case Kind.RESULT | Kind.LAST:
            return Purpose.UNIFORM if event.lane is None else Purpose.VALUE
        case Kind.MORE:
            return Purpose.MORE
        case Kind.OLD:
            return Purpose.OLD
        case Kind.BIT:
            return Purpose.BRANCH
        case Kind.PC:
            return Purpose.JUMP
        case Kind.ACK:
            return Purpose.STORE
        case Kind.STEP:  # for the last lane of a store as well
            return Purpose.STEP if event.lane is None else Purpose.STORE
    return Purpose.END
