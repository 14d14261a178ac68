"""A fault in the middle of a block of four warps, on the machine as it ships."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qdbg.cli import main
from qdbg.cli.failure import Exit

THREAD, WARP, LANE = 81, 2, 17
#: Every thread writes three times its number in the grid, then 7; thread 81 of block 1 goes wrong.
KERNEL = """// qdbg: launch k<<<2, 128>>>(out = u32[256])
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred %p<2>;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 128, %r0;
mul.wide.u32 %rd1, %r2, 4; add.s64 %rd2, %rd0, %rd1; mul.lo.u32 %r3, %r2, 3;
st.global.u32 [%rd2], %r3;
setp.eq.u32 %p1, %r2, 209;
FAULT
ret;
}
"""
STORE = "st.global.u32 [%rd2], 7;"
ELSEWHERE = "selp.b64 %rd3, {}, 0, %p1; add.s64 %rd2, %rd2, %rd3;"
#: Reason -> (what comes before the instruction at fault, that, what comes after, threads that then write 7).
FAULTS = {
    "out of bounds": (ELSEWHERE.format(1024), STORE, "", THREAD),
    "misaligned": (ELSEWHERE.format(2), STORE, "", THREAD),
    "the kernel executed trap": ("", "@%p1 trap;", STORE, 0),
}


@pytest.mark.stock
@pytest.mark.parametrize("reason", FAULTS)
def test_it_is_located_and_leaves_the_memory_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    before, fault, after, written = FAULTS[reason]
    text = KERNEL.replace("FAULT", f"{before}\n{fault}\n{after}")
    file = tmp_path / "k.ptx"
    file.write_text(text)
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(file), "--json"])
    out, err = capsys.readouterr()
    report = json.loads(out)
    line = 1 + text[: text.rindex(fault)].count("\n")
    assert exit_.value.code == Exit.UNSUPPORTED
    assert (report["engine"], report["exact"]) == ("sparse", True)
    assert report["trap"] == {
        "block": [1, 0, 0], "thread": [THREAD, 0, 0], "warp": WARP, "lane": LANE, "line": line,
        "reason": reason,
    }  # fmt: skip
    assert err.startswith(f"qdbg: {file}:{line}: ")
    assert err.count("\n") == 1
    assert f"warp {WARP} lane {LANE}" in err
    first, second = [7] * 128, [7] * written + [3 * t for t in range(128 + written, 256)]
    assert report["outputs"]["out"]["data"] == first + second
