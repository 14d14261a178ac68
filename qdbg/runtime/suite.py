"""Launches verified: the interpreter proposes every token, the model confirms each.

Generating takes a forward pass a token, one after the other.  Where the tokens are known beforehand, the
model can read many at once and say for each what it would have generated next.  So a launch runs on
the architecture's emulator, in lock-step with the PTX interpreter, and the model then checks the
tokens that came out: all of them, or it would not have been the one that generates them.

`check` does both for one launch.  For several that go through the model as one batch there are `claim`,
which needs no model, and `check_batch`.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from qdbg.compiler.files import read_regular
from qdbg.compiler.machine.config import WARP, MachineConfig
from qdbg.compiler.machine.isa import LACKING
from qdbg.runtime.engine import Progress, Wrong
from qdbg.runtime.interpreter import Interpreter
from qdbg.runtime.launch import LaunchError, parse_launches
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared, open_session, prepare
from qdbg.runtime.needs import missing
from qdbg.runtime.outcome import PassLimit, run
from qdbg.runtime.trace import Trace, TraceError
from qdbg.runtime.verified import Verified, WrongToken

if TYPE_CHECKING:
    from qdbg.runtime.session import Session

SUFFIXES = (".cu", ".ptx")
#: Marks a file whose launches must not end; so many of their passes are checked.
_ENDLESS = re.compile(r"^\s*//\s*qdbg-verify:\s*endless\s*$", re.MULTILINE)
ENDLESS_PASSES = 2_000


class Verifier(Protocol):
    """An engine that can read a whole launch and say where it would have gone on differently."""

    def verify(
        self, prompt: Sequence[int], trace: Sequence[int], progress: Progress | None = None
    ) -> Wrong | None:
        """The first token of `trace` that the model would not generate after `prompt`, if there is one."""
        ...


class BatchVerifier(Protocol):
    """An engine that can do so for several launches as one batch."""

    def verify_batch(
        self, launches: Sequence[tuple[Sequence[int], Sequence[int]]], progress: Progress | None = None
    ) -> list[Wrong | None]:
        """`Verifier.verify` for each (prompt, trace)."""
        ...


@dataclass(frozen=True)
class Case:
    """A launch of a file: its number from 1, None where the file's comments offer none."""

    path: str
    launch: int | None

    def __str__(self) -> str:
        return self.path if self.launch is None else f"{self.path} launch {self.launch}"


def cases(paths: Iterable[Path]) -> list[Case]:
    """Every launch of every file, folders searched for kernels.

    A file that cannot be read or whose comments make no sense is a case as well: it fails when it is
    run.  Raises FileNotFoundError for a path that is not there.
    """
    found: list[Case] = []
    for path in paths:
        path.stat()
        files = sorted(f for f in path.rglob("*") if f.suffix in SUFFIXES) if path.is_dir() else [path]
        for file in files:
            try:
                count = len(parse_launches(read_regular(file).decode("utf-8-sig"), str(file)))
            except (LaunchError, OSError, UnicodeError):
                count = 0
            numbers = range(1, count + 1) if count else (None,)
            found += [Case(os.fspath(file), number) for number in numbers]
    return list(dict.fromkeys(found))


def lacks(case: Case, config: MachineConfig) -> tuple[str, ...]:
    """What the launch needs and the machine does not have, as `needs.missing` says it.

    Nothing for a file that cannot be read, which fails when it is run.
    """
    try:
        text = read_regular(Path(case.path)).decode("utf-8-sig")
        launch = parse_launches(text, case.path)[(case.launch or 1) - 1]
    except (LaunchError, OSError, UnicodeError, IndexError):
        return ()
    return missing(text, case.path, launch, config)


@dataclass(frozen=True)
class Proposal:
    """A launch that ran on the emulator beside the interpreter, and what is known of it without a model."""

    prepared: Prepared
    session: Session
    verified: Verified


def propose(case: Case, config: MachineConfig, limit: int) -> Proposal:
    """Run a launch without a model.  Raises what `prepare` does, and LoweringError."""
    from qdbg.runtime.emulator import Emulator

    prepared = prepare(Path(case.path), LaunchOptions(number=case.launch), config)
    endless = _ENDLESS.search(prepared.source.text) is not None
    session = open_session(prepared, Emulator(config), "", min(limit, ENDLESS_PASSES) if endless else limit)
    session.start()
    outcome, stuck = None, None
    try:
        outcome = run(session)
    except PassLimit as error:
        stuck = error
    token = prepared.image.vocabulary.token
    verified = Verified(
        path=case.path,
        launch=case.launch,
        kernel=prepared.kernel,
        prompt_tokens=len(prepared.image.ids),
        ptx_instructions=session.lockstep.issued if outcome is None else outcome.ptx_instructions,
        tokens=len(session.tokens),
        kinds=dict(Counter(token(i).kind.name.lower() for i in session.tokens)),
        mismatch=session.mismatch,
        expected=outcome.expected if outcome is not None else None,
        trap=session.trap(),
        endless=endless,
    )
    return Proposal(prepared, session, _judge(verified, prepared, session, stuck))


@dataclass(frozen=True)
class Claim:
    """What the model is said to generate, and what is known of the launch without it; can be pickled.

    prompt, tokens: as token ids, empty where there is nothing to ask a model.
    """

    verified: Verified
    prompt: list[int]
    tokens: list[int]

    @property
    def read(self) -> int:
        """Tokens that the model has read: none so far."""
        return 0


def claim(case: Case, config: MachineConfig, limit: int) -> Claim:
    """Run a launch without a model.  What the machine lacks something for, only the interpreter runs.

    Raises what `propose` does, and Fault, Unsupported and LimitReached.
    """
    start = time.perf_counter()
    if lacking := lacks(case, config):
        verified = replace(_interpret(case, limit), missing=lacking)
        return Claim(replace(verified, seconds=time.perf_counter() - start), [], [])
    proposal = propose(case, config, limit)
    verified = replace(proposal.verified, seconds=time.perf_counter() - start)
    return Claim(verified, proposal.prepared.image.ids, list(proposal.session.tokens))


def check(
    case: Case, engine: Verifier, config: MachineConfig, limit: int, progress: Progress | None = None
) -> Verified:
    """Verify a launch on an engine: see the module.  Raises what `claim` does."""
    made = claim(case, config, limit)
    if not made.tokens:
        return made.verified
    begin = time.perf_counter()
    wrong = engine.verify(made.prompt, made.tokens, progress)
    return _checked(made, wrong, time.perf_counter() - begin, config)


def check_batch(
    claims: Sequence[Claim], engine: BatchVerifier, config: MachineConfig, progress: Progress | None = None
) -> list[Verified]:
    """Verify launches as one batch of an engine, whose time they share by their tokens."""
    asked = [made for made in claims if made.tokens]
    begin = time.perf_counter()
    found = iter(engine.verify_batch([(made.prompt, made.tokens) for made in asked], progress))
    a_token = (time.perf_counter() - begin) / max(sum(made.verified.read for made in asked), 1)
    return [
        _checked(made, next(found), a_token * made.verified.read, config) if made.tokens else made.verified
        for made in claims
    ]


def _checked(made: Claim, wrong: Wrong | None, seconds: float, config: MachineConfig) -> Verified:
    """The result of a launch, once the model has taken `seconds` for its answer."""
    result = replace(made.verified, seconds=made.verified.seconds + seconds, check_seconds=seconds)
    if wrong is None:
        return result
    prepared = prepare(Path(result.path), LaunchOptions(number=result.launch), config)
    located = locate(prepared, made.tokens, wrong)
    return replace(result, wrong=located, status=1, error=str(located))


def _interpret(case: Case, limit: int) -> Verified:
    """Run a launch on the interpreter alone."""
    prepared = prepare(Path(case.path), LaunchOptions(number=case.launch), None)
    interpreter = Interpreter(prepared.source.ptx, prepared.bound)
    interpreter.run(limit)
    wanted = prepared.bound.expectations
    met = all(len(e.mismatches(interpreter.array(e.name))) == 0 for e in wanted) if wanted else None
    verified = Verified(
        path=case.path,
        launch=case.launch,
        kernel=prepared.kernel,
        ptx_instructions=interpreter.instructions,
        expected=met,
    )
    return _unexpected(verified, prepared) if met is False else verified


def locate(prepared: Prepared, tokens: list[int], wrong: Wrong) -> WrongToken:
    """Where the launch was when the model went wrong; tokens: those that are right."""
    image = prepared.image
    trace = Trace(image.program, image.vocabulary, image.threads)
    for token in tokens[: wrong.index]:
        trace.feed(token)
    block, covered = trace.block, trace.instruction.ptx
    try:
        lane = trace.feed(wrong.expected).lane
    except TraceError:  # interpreter and emulator had parted before the model was asked
        lane = None
    at = prepared.bound.kernel.body[max(covered)] if covered else None
    place = prepared.source.ptx.path
    if at is not None:
        cuda_line = prepared.source.cuda_line(at)
        place = f"{prepared.source.path}:{cuda_line}" if cuda_line is not None else f"{place}:{at.line}"
    return WrongToken(
        number=wrong.index + 1,
        block=block,
        warp=lane // WARP if lane is not None else None,
        lane=lane % WARP if lane is not None else None,
        line=at.line if at is not None else None,
        text=at.text.strip() if at is not None else None,
        place=place,
        expected=str(image.vocabulary.token(wrong.expected)),
        found=str(image.vocabulary.token(wrong.found)),
    )


def _judge(verified: Verified, prepared: Prepared, session: Session, stuck: PassLimit | None) -> Verified:
    """Status and sentence of a launch, as far as they do not depend on the model."""
    path = prepared.source.path
    if verified.mismatch is not None:
        return replace(verified, status=1, error=f"{path}: {verified.mismatch}")
    if stuck is not None:
        if verified.endless:
            return replace(verified, expected=True)
        return replace(verified, status=3, error=f"{path}: {stuck}")
    if verified.endless:
        sentence = f"{path}: the file says that the launch is endless, but it ended"
        return replace(verified, expected=False, status=1, error=sentence)
    if verified.trap is not None:
        return _judge_trap(verified, prepared, session)
    return _unexpected(verified, prepared) if verified.expected is False else verified


def _unexpected(verified: Verified, prepared: Prepared) -> Verified:
    sentence = f"{prepared.source.path}: the result is not what the file expects; `qdbg run` says where"
    return replace(verified, status=1, error=sentence)


def _judge_trap(verified: Verified, prepared: Prepared, session: Session) -> Verified:
    """A trap that the interpreter agrees on is a result like any other, unless another was expected."""
    assert session.trace.trap is not None
    sentence = f"{prepared.source.path}: {verified.trap}"
    if session.trace.trap[1] in LACKING:
        return replace(verified, status=3, error=sentence)
    if prepared.bound.expectations:
        return replace(verified, expected=False, status=1, error=sentence)
    return verified
