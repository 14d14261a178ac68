"""Valid PTX with one token deleted or replaced: what a reader and an interpreter must survive."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdbg.compiler.ptx.ir import PtxError
from qdbg.compiler.ptx.lexer import tokenize
from qdbg.compiler.source import ptx_source
from qdbg.runtime.interpreter import Fault, Interpreter, LimitReached, Unsupported
from qdbg.runtime.launch import LaunchError, bind, launch_for


@dataclass(frozen=True)
class Mutant:
    """`text` with the token `old` at `line` gone, or `new` in its place."""

    text: str
    line: int
    old: str
    new: str


def mutants(texts: Sequence[str], count: int, seed: int) -> Iterator[Mutant]:
    """`count` mutants of the texts in turn.

    What replaces a token comes from any of the texts, more often than not a token of the same kind.
    """
    chosen = random.Random(seed)
    tokens = [[t for t in tokenize(text, "x") if t.kind != "end"] for text in texts]
    words: dict[str, set[str]] = {}
    for known in (t for several in tokens for t in several):
        words.setdefault(known.kind, set()).add(known.text)
    of_kind = {kind: sorted(found) for kind, found in words.items()}
    for number in range(count):
        text, several = texts[number % len(texts)], tokens[number % len(texts)]
        token = chosen.choice(several)
        kind = token.kind if chosen.random() < 0.8 else chosen.choice(sorted(of_kind))
        new = "" if chosen.random() < 0.3 else chosen.choice(of_kind[kind])
        space = "" if kind == "dot" else " "
        yield Mutant(
            text[: token.start] + space + new + space + text[token.end :], token.line, token.text, new
        )


def outcome(text: str, steps: int, path: str = "mutant.ptx") -> str:
    """What becomes of PTX text with a launch comment: "ran" or the sentence with which it failed."""
    try:
        source = ptx_source(text, path)
        machine = Interpreter(source.ptx, bind(source, launch_for(source), memory_bytes=1 << 20))
        machine.run(steps)
    except LimitReached:
        return "ran"
    except (PtxError, LaunchError, Fault, Unsupported) as error:
        return str(error)
    return "ran"
