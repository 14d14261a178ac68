"""Blocks of four warps, for tests of what follows a launch: what they store is worked out in Python."""

from __future__ import annotations

from pathlib import Path

from qdbg.runtime.emulator import Emulator
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import Prepared, open_session, prepare
from qdbg.runtime.session import Session

THREADS = 128
HEAD = """\
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b16 %h<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<4>;
    .shared .align 4 .b8 s[512];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
"""
ELEMENT = "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n"
WIDE_ELEMENT = "mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2;\n"
#: Everybody leaves its number in shared memory and takes that of the thread at the other end of the block;
#: odd threads triple it; then as many rounds as the two lowest bits say.
EXCHANGE = """
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    sub.u32 %r5, 508, %r2;
    add.u32 %r5, %r5, %r3;
    ld.shared.u32 %r6, [%r5];
    and.b32 %r7, %r1, 1;
    setp.eq.u32 %p1, %r7, 0;
    @%p1 bra even;
    mul.lo.u32 %r6, %r6, 3;
even:
    and.b32 %r7, %r1, 3;
again:
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra done;
    add.u32 %r6, %r6, 1000;
    sub.u32 %r7, %r7, 1;
    bra again;
done:
    bar.sync 0;
    st.shared.u32 [%r4], %r6;
    bar.sync 0;
    ld.shared.u32 %r8, [%r5];
    st.global.u32 [%rd3], %r8;
"""


def _exchanged(thread: int) -> int:
    other = THREADS - 1 - thread
    return other * (3 if thread % 2 else 1) + 1000 * (thread % 4)


#: Products beyond 64 bits, both halves in use, and a shift across them.
LONG = """
    cvt.u64.u32 %rd4, %r1;
    mul.lo.u64 %rd5, %rd4, 0x123456789abcdef1;
    sub.u64 %rd6, %rd5, 0x8000000080000000;
    shr.s64 %rd7, %rd6, 9;
    xor.b64 %rd8, %rd7, %rd5;
    st.global.u64 [%rd3], %rd8;
"""


def _long(thread: int) -> int:
    product = thread * 0x123456789ABCDEF1 % 2**64
    low = (product - 0x8000000080000000) % 2**64
    signed = low - 2**64 if low >> 63 else low
    return (signed >> 9) % 2**64 ^ product


#: A byte a thread, four to a word.
BYTES = """
    mul.lo.u32 %r2, %r1, 7;
    cvt.u64.u32 %rd4, %r1;
    add.s64 %rd5, %rd1, %rd4;
    st.global.u8 [%rd5], %r2;
"""
#: Votes and shuffles among neighbours, then one sum for the block and a histogram of the threads' last bits.
TOGETHER = """
    and.b32 %r2, %r1, 5;
    setp.eq.u32 %p1, %r2, 0;
    vote.sync.ballot.b32 %r3, %p1, 0xffffffff;
    popc.b32 %r4, %r3;
    shfl.sync.down.b32 %r5, %r1, 3, 31, 0xffffffff;
    mad.lo.u32 %r6, %r4, 1000, %r5;
    and.b32 %r7, %r1, 3;
    shl.b32 %r7, %r7, 2;
    mov.u32 %r8, s;
    add.u32 %r7, %r7, %r8;
    atom.shared.add.u32 %r8, [%r7], %r6;
    bar.sync 0;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd3], %r8;
"""


def _together(thread: int) -> int:
    mine = [t for t in range(THREADS) if t % 4 == thread % 4]
    voters = sum(lane & 5 == 0 for lane in range(32))
    return sum(voters * 1000 + (t + 3 if t % 32 < 29 else t) for t in mine)


#: The upper two warps leave before the barrier that the others meet at.
LEAVING = """
    setp.gt.u32 %p1, %r1, 63;
    @%p1 bra end;
    bar.sync 0;
    mov.u32 %r2, 3;
    st.global.u32 [%rd3], %r2;
end:
"""
#: name -> (body, the array's type, what it holds in the end).
PROGRAMS: dict[str, tuple[str, str, list[int]]] = {
    "exchange": (ELEMENT + EXCHANGE, "u32", [_exchanged(THREADS - 1 - t) for t in range(THREADS)]),
    "long": (WIDE_ELEMENT + LONG, "u64", [_long(t) for t in range(THREADS)]),
    "together": (ELEMENT + TOGETHER, "u32", [_together(t) for t in range(THREADS)]),
    "bytes": (BYTES, "u8", [7 * t % 256 for t in range(THREADS)]),
    "leaving": (ELEMENT + LEAVING, "u32", [3] * 64 + [0] * 64),
}


def prepared(folder: Path, name: str) -> Prepared:
    """A launch of one of the programs."""
    body, kind, after = PROGRAMS[name]
    return launch(folder, body, f"{kind}[{THREADS}]", f"{kind}{after}")


def launch(folder: Path, body: str, array: str, expected: str | None) -> Prepared:
    """A launch of PTX statements with 128 threads on one array."""
    file = folder / "k.ptx"
    comment = f"// qdbg: launch k<<<1, {THREADS}>>>(out = {array})\n"
    if expected is not None:
        comment += f"// qdbg: expect out = {expected}\n"
    file.write_text(f"{comment}{HEAD}{body}    ret;\n}}\n")
    return prepare(file, LaunchOptions())


def started(launch: Prepared) -> Session:
    """A session on the emulator."""
    session = open_session(launch, Emulator(launch.config), "", 100_000)
    session.start()
    return session
