"""The machine's tokens: what each id means, and how a launch is written as a prompt.

| class | payload | meaning |
|---|---|---|
| PAD | - | padding; no program uses it |
| BOOT | - | first token of a prompt: prepares the state |
| END | - | the launch is over (the `eos` token) |
| STEP | - | the instruction is finished, nothing to write; on to the next |
| ACK | - | a lane's store is done, another lane follows |
| THREADS | n | lanes below n exist |
| PC | address | execution goes on at `address` |
| LINE | device, line | following words are loaded to `device` from word 16*line on |
| BIT | lane, taken, last | outcome of CBR in `lane`; with `last` the next instruction starts |
| TRAP | lane, reason | a lane trapped; the next token is END |
| MORE | 11 bits | the low bits of a value that does not fit; in a prompt, of a word |
| RESULT | 11 bits | a lane's value is complete, sign-extended from its topmost chunk |
| OLD | 11 bits | a value that HOLD read is complete; the lane does the next, held instruction |
| LAST | 11 bits | the same as RESULT for the last active lane (or the warp): the next instruction starts |
| WORD | 11 bits | a word of the prompt is complete |

A 32-bit value is one to three chunks, low bits first: 11, 11 and 10 bits, all but the last as MORE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache

from qdbg.compiler.machine.config import LINE, MEMORY_BASE, MachineConfig
from qdbg.compiler.machine.encoding import WORD_BITS, encode
from qdbg.compiler.machine.isa import Program, Trap

CHUNK = 11
_CHUNKS = 1 << CHUNK


class Kind(IntEnum):
    """Token classes."""

    PAD = 0
    BOOT = auto()
    END = auto()
    STEP = auto()
    ACK = auto()
    THREADS = auto()
    PC = auto()
    LINE = auto()
    BIT = auto()
    TRAP = auto()
    MORE = auto()
    RESULT = auto()
    OLD = auto()
    LAST = auto()
    WORD = auto()


class Device(IntEnum):
    """What a LINE token can address."""

    MEMORY = 0  #: words of memory
    VALID = 1  #: 32 words' "is allocated" bits a word
    UNIFORM = 2  #: uniform registers
    IMMEDIATE = 3  #: immediates, one for each instruction
    PROGRAM = 4  #: 77-bit instruction words
    SHARED = 5  #: 32 words' "is shared memory" bits a word


@dataclass(frozen=True, slots=True)
class Token:
    """A decoded token.  `value` is the payload; `lane`, `taken`, `last` belong to BIT and TRAP."""

    kind: Kind
    value: int = 0
    lane: int = 0
    taken: bool = False
    last: bool = False
    device: Device = Device.MEMORY

    def __str__(self) -> str:
        match self.kind:
            case Kind.PC:
                return f"@{self.value}"
            case Kind.LINE:
                return f"<{self.device.name.lower()} {self.value * LINE}>"
            case Kind.BIT:
                return f"<lane {self.lane}: {int(self.taken)}{' last' if self.last else ''}>"
            case Kind.TRAP:
                return f"<trap lane {self.lane}: {Trap(self.value).name.lower().replace('_', ' ')}>"
            case Kind.MORE | Kind.RESULT | Kind.OLD | Kind.LAST | Kind.WORD | Kind.THREADS:
                return f"<{self.kind.name.lower()} {self.value:#x}>"
            case _:
                return f"<{self.kind.name.lower()}>"


class Vocabulary:
    """Token ids of a machine: `vocabulary[token]` is an id, `vocabulary.token(id)` the reverse."""

    def __init__(self, config: MachineConfig):
        self.config = config
        self.tokens, self._ids = self._numbered(config)

    @staticmethod
    @cache  # every launch of a suite asks for it
    def _numbered(config: MachineConfig) -> tuple[list[Token], dict[Token, int]]:
        tokens = list(Vocabulary._all(config))
        return tokens, {token: index for index, token in enumerate(tokens)}

    @staticmethod
    def _all(config: MachineConfig) -> Iterator[Token]:
        for kind in (Kind.PAD, Kind.BOOT, Kind.END, Kind.STEP, Kind.ACK):
            yield Token(kind)
        for n in range(1, config.lanes + 1):
            yield Token(Kind.THREADS, n)
        for address in range(config.program):
            yield Token(Kind.PC, address)
        for device, size in device_sizes(config).items():
            for line in range(-(-size // LINE)):
                yield Token(Kind.LINE, line, device=device)
        for lane in range(config.lanes):
            for taken in (False, True):
                for last in (False, True):
                    yield Token(Kind.BIT, lane=lane, taken=taken, last=last)
        for lane in range(config.lanes):
            for reason in Trap:
                yield Token(Kind.TRAP, int(reason), lane=lane)
        for kind in (Kind.MORE, Kind.RESULT, Kind.OLD, Kind.LAST, Kind.WORD):
            for value in range(_CHUNKS):
                yield Token(kind, value)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, token: Token) -> int:
        return self._ids[token]

    def token(self, index: int) -> Token:
        """The token with this id.  Raises IndexError past the vocabulary."""
        return self.tokens[index]


def device_sizes(config: MachineConfig) -> dict[Device, int]:
    """Words that each device holds; memory and its valid bits are numbered from byte address 0."""
    first = MEMORY_BASE // 4
    return {
        Device.MEMORY: first + config.words,
        Device.VALID: (first + config.words) // 32,
        Device.SHARED: (first + config.words) // 32,
        Device.UNIFORM: config.uniforms,
        Device.IMMEDIATE: config.program,
        Device.PROGRAM: config.program,
    }


def chunks(value: int) -> list[int]:
    """The 11-bit chunks of a 32-bit value, low first, as few as sign extension allows."""
    value &= 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    for count in (1, 2):
        half = 1 << (CHUNK * count - 1)
        if -half <= signed < half:
            return [(signed >> (CHUNK * i)) & (_CHUNKS - 1) for i in range(count)]
    return [value & 0x7FF, value >> 11 & 0x7FF, value >> 22]


def assemble(parts: list[int]) -> int:
    """The 32-bit value of one to three chunks: the reverse of `chunks`."""
    value = sum(part << (CHUNK * i) for i, part in enumerate(parts))
    width = CHUNK * len(parts)
    if width < 32 and value >> (width - 1):
        value |= (1 << 32) - (1 << width)
    return value & 0xFFFFFFFF


def value_tokens(value: int, final: Kind) -> list[Token]:
    """A value as tokens, the last of kind `final` (RESULT, LAST or WORD)."""
    *low, top = chunks(value)
    return [Token(Kind.MORE, part) for part in low] + [Token(final, top)]


def prompt(
    program: Program,
    uniforms: dict[int, int],
    memory: dict[int, int],
    allocated: Iterable[tuple[int, int]],
    threads: int,
    shared: tuple[int, int] = (0, 0),
) -> list[Token]:
    """A launch as tokens.

    uniforms: register -> 32-bit value (parameters and constants); memory: word-aligned byte address
    -> initial word; allocated: (byte address, bytes) of every allocation; threads: lanes that exist;
    shared: (byte address, bytes) of the block's shared memory, which must be allocated too.
    """
    tokens = [Token(Kind.BOOT), Token(Kind.THREADS, threads)]
    code = program.code
    words = {pc: encode(i, code[pc - 1] if pc % LINE else None) for pc, i in enumerate(code)}
    count = -(-WORD_BITS // CHUNK)
    for line, row in _lines(words):
        tokens.append(Token(Kind.LINE, line, device=Device.PROGRAM))
        for word in row:
            parts = [word >> (CHUNK * i) & (_CHUNKS - 1) for i in range(count)]
            tokens += [Token(Kind.MORE, p) for p in parts[:-1]] + [Token(Kind.WORD, parts[-1])]
    devices = {
        Device.IMMEDIATE: {pc: i.immediate for pc, i in enumerate(code) if i.immediate},
        Device.UNIFORM: {r: v for r, v in uniforms.items() if v & 0xFFFFFFFF},
        Device.VALID: _table(allocated),
        Device.SHARED: _table([shared] if any(i.shared for i in code) else []),
        Device.MEMORY: {a // 4: v for a, v in memory.items() if v & 0xFFFFFFFF},
    }
    for device, content in devices.items():
        for line, row in _lines(content):
            tokens.append(Token(Kind.LINE, line, device=device))
            for word in row:
                tokens += value_tokens(word, Kind.WORD)
    return [*tokens, Token(Kind.PC, program.entry)]


def _table(regions: Iterable[tuple[int, int]]) -> dict[int, int]:
    """One bit for every word of memory that lies in a region, 32 to a word."""
    table: dict[int, int] = {}
    for address, size in regions:
        for index in range(address // 4, -(-(address + size) // 4)):
            table[index // 32] = table.get(index // 32, 0) | 1 << index % 32
    return table


def _lines(content: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
    """Lines of up to 16 words, gaps filled with 0, ending at the last word that is there."""
    for line in sorted({index // LINE for index in content}):
        last = max(index for index in content if index // LINE == line)
        yield line, [content.get(index, 0) for index in range(line * LINE, last + 1)]
