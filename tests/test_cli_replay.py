"""`decode`'s replay: the memory comes from the tokens, and from nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qdbg.cli import main
from qdbg.compiler.machine.config import MEMORY_BASE, TINY
from qdbg.compiler.machine.isa import LANE_INDEX, Cond, Instr, Op, Pattern, Program, Reg, Width
from qdbg.compiler.machine.vocabulary import Kind, Token, Vocabulary, prompt
from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare
from qdbg.runtime.replay import Replay
from qdbg.runtime.trace import TraceError

README = Path(__file__).parent.parent / "README.md"
DOT = README.parent / "kernels" / "dot.cu"
VOCABULARY = Vocabulary(TINY)
V0, V1, BASE = Reg(0), Reg(1), Reg(2, uniform=True)
#: out[lane] = lane < 2 ? 100 * lane + 7 : data[lane], with data at BASE and out 16 bytes behind it.
PROGRAM = Program(
    code=(
        Instr(Op.MAD, V0, a=LANE_INDEX, immediate=100, immediate_is_b=True, unchained=True),
        Instr(Op.CBR, slot=0, a=LANE_INDEX, immediate=2, immediate_is_b=True, cond=Cond.LT),
        Instr(Op.ADD, V0, a=V0, immediate=7, pattern=Pattern(1, 1), unchained=True),
        Instr(Op.LD, V0, a=LANE_INDEX, c=BASE, scale=2, pattern=Pattern(1, 0), unchained=True),
        Instr(Op.CLR, slot=0),
        Instr(Op.ST, a=LANE_INDEX, b=V0, c=BASE, scale=2, immediate=16),
        Instr(Op.HALT),
    )
)
UNIFORMS = {BASE.index: MEMORY_BASE}
DATA = {MEMORY_BASE + 4 * i: value for i, value in enumerate((11, 22, 3_000_000_000, 44))}


#: Every lane adds 100 to the first word, then puts 0xA0 + lane into a byte of the second one.
MODIFYING = Program(
    code=(
        Instr(Op.HOLD, V0, c=BASE),
        Instr(Op.ADD, a=V0, immediate=100, held=True),
        Instr(Op.ADD, V1, a=LANE_INDEX, immediate=0xA0),
        Instr(Op.HOLD, V0, a=LANE_INDEX, c=BASE, immediate=4, width=Width.BYTE),
        Instr(Op.INSERT, a=V0, b=V1, width=Width.BYTE, held=True),
        Instr(Op.HALT),
    )
)


def generate(program: Program = PROGRAM) -> list[int]:
    tokens = prompt(program, UNIFORMS, DATA, [(MEMORY_BASE, 32)], threads=4)
    engine = Emulator(TINY)
    ids = [engine.prefill([VOCABULARY[token] for token in tokens])]
    while VOCABULARY.token(ids[-1]).kind is not Kind.END:
        ids.append(engine.step())
    return ids


def replay(ids: list[int], program: Program = PROGRAM) -> Replay:
    result = Replay(program, VOCABULARY, UNIFORMS, DATA, threads=4)
    result.feed_all(ids)
    return result


def test_memory_follows_from_the_tokens() -> None:
    result = replay(generate())
    assert result.trace.ended
    assert result.memory[:8].tolist() == [11, 22, 3_000_000_000, 44, 7, 107, 3_000_000_000, 44]


def test_a_changed_token_changes_the_memory() -> None:
    """107 is below 2^10, so it is one token; the replay must believe another number in its place."""
    ids = generate()
    place = ids.index(VOCABULARY[Token(Kind.RESULT, 107)])
    ids[place] = VOCABULARY[Token(Kind.RESULT, 108)]
    assert replay(ids).memory[4:8].tolist() == [7, 108, 3_000_000_000, 44]


def test_a_loaded_value_is_what_the_token_says() -> None:
    ids = generate()
    place = ids.index(VOCABULARY[Token(Kind.RESULT, 44)])
    ids[place] = VOCABULARY[Token(Kind.RESULT, 45)]
    assert replay(ids).memory[4:8].tolist() == [7, 107, 3_000_000_000, 45]


def test_a_changed_branch_bit_changes_the_path() -> None:
    """Lane 1 no longer takes the branch, so the machine would not have emitted its sum next."""
    ids = generate()
    taken = Token(Kind.BIT, lane=1, taken=True)
    ids[ids.index(VOCABULARY[taken])] = VOCABULARY[Token(Kind.BIT, lane=1, taken=False)]
    with pytest.raises(TraceError, match="makes no sense"):
        replay(ids)


def test_held_instructions_change_the_memory() -> None:
    result = replay(generate(MODIFYING), MODIFYING)
    assert result.trace.ended
    assert result.memory[:4].tolist() == [11 + 4 * 100, 0xA3A2A1A0, 3_000_000_000, 44]


def test_what_a_held_instruction_changes_is_what_the_token_says() -> None:
    """Lane 3 is told that the first word was 312 rather than 311."""
    ids = generate(MODIFYING)
    ids[ids.index(VOCABULARY[Token(Kind.OLD, 311)])] = VOCABULARY[Token(Kind.OLD, 312)]
    assert replay(ids, MODIFYING).memory[0] == 312 + 100


@pytest.mark.parametrize(
    ("token", "instead"),
    [
        (Token(Kind.OLD, 211), Token(Kind.RESULT, 211)),
        (Token(Kind.ACK), Token(Kind.STEP)),
        (Token(Kind.LAST, 0xA3), Token(Kind.OLD, 0xA3)),
        (Token(Kind.RESULT, 0xA1), Token(Kind.LAST, 0xA1)),
    ],
)
def test_a_token_of_another_kind_is_refused(token: Token, instead: Token) -> None:
    ids = generate(MODIFYING)
    ids[ids.index(VOCABULARY[token])] = VOCABULARY[instead]
    with pytest.raises(TraceError, match="makes no sense"):
        replay(ids, MODIFYING)


def test_an_acknowledged_store_to_nowhere_is_refused() -> None:
    nowhere = Replay(PROGRAM, VOCABULARY, {BASE.index: 0}, DATA, threads=4)
    with pytest.raises(TraceError, match="store to 0x10"):
        nowhere.feed_all(generate())


def test_readme_shows_how_to_falsify_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its one-liner turns dot's 1*4 + 2*5 + 3*6 = 32 into 33."""
    line = re.search(r'^    python -c "(import json; .*wrong\.json.*)"$', README.read_text(), re.MULTILINE)
    assert line is not None
    image = prepare(DOT, LaunchOptions()).image
    engine = Emulator(image.config)
    ids = [engine.prefill(image.ids)]
    while image.vocabulary.token(ids[-1]).kind is not Kind.END:
        ids.append(engine.step())
    monkeypatch.chdir(tmp_path)
    Path("tokens.json").write_text(json.dumps({"new_ids": ids}))
    subprocess.run([sys.executable, "-c", line[1]], check=True)
    for file, result in (("tokens.json", 32), ("wrong.json", 33)):
        with pytest.raises(SystemExit) as exit_:
            main(["decode", str(DOT), file])
        assert exit_.value.code == 0
        assert json.loads(capsys.readouterr().out)["out"]["data"] == [result]
