"""Machine and interpreter check the same bounds: what may be touched is counted in whole words."""

from __future__ import annotations

import pytest
from lowered import emulate
from ptx_runner import HEADER, THREAD_ELEMENT, kernel, run, source

from qdbg.runtime.interpreter.errors import Fault
from qdbg.runtime.launch import LaunchError, bind, launch_for

STORE_SUM = "add.u32 %r1, %r1, 1; st.global.u32 [%d2], %r1; ret;"


@pytest.mark.parametrize(
    ("array", "words", "after"),
    [
        ("u8[1, 2, 3]", 1, [2, 2, 3]),
        ("bytes[255, 255]", 1, [0, 0]),  # the carry goes to the bytes behind the array
        ("u16[7,]", 1, [8]),
        ("u8[0, 1, 0, 0, 9]", 2, [1, 1, 0, 0, 10]),
    ],
)
def test_the_last_word_of_an_array_is_whole(array: str, words: int, after: list[int]) -> None:
    body, arguments = THREAD_ELEMENT + STORE_SUM, f"a = {array}"
    result = emulate(kernel(body, arguments, block=str(words)))
    assert result.trap is None
    assert result.array("a").tolist() == after
    assert run(body, arguments, block=str(words)).array("a").tolist() == after
    assert (
        emulate(kernel(body, arguments, block=str(words + 1))).trap == f"<trap lane {words}: out of bounds>"
    )
    with pytest.raises(Fault, match="outside every array"):
        run(body, arguments, block=str(words + 1))


def test_shared_memory_is_whole_words() -> None:
    body = ".shared .b8 s[6]; ld.shared.u32 %r1, [s+{offset}]; ret;"
    assert emulate(kernel(body.format(offset=4), "a = u32[1]")).trap is None
    run(body.format(offset=4), "a = u32[1]")
    assert emulate(kernel(body.format(offset=8), "a = u32[1]")).trap == "<trap lane 0: out of bounds>"
    with pytest.raises(Fault, match="outside the shared memory"):
        run(body.format(offset=8), "a = u32[1]")


@pytest.mark.parametrize(
    ("before", "local", "parameter", "cause"),
    [
        (".global .b8 g[99999999999];", "", ".u64 p", r"^t.ptx:5: g takes 99999999999 bytes and there are"),
        (
            "",
            ".local .b8 l[9999999999];",
            ".u64 p",
            r"^t.ptx:7: l takes 9999999999 bytes for each of 2 threa",
        ),
        ("", "", ".b8 p[99999999999]", r"^t.ptx:6: the parameters of k take 99999999999 bytes, .* 32764;"),
    ],
)
def test_declarations_of_more_memory_than_there_is(
    before: str, local: str, parameter: str, cause: str
) -> None:
    text = (
        f"// qdbg: launch k<<<1, 2>>>(p = u8[1])\n{HEADER}{before}\n.entry k(.param {parameter}) {{\n{local}"
        ".reg .b64 %d; mov.u64 %d, " + ("g" if before else "0") + "; ret; }\n"
    )
    loaded = source(text, "t.ptx")
    with pytest.raises(LaunchError, match=cause):
        bind(loaded, launch_for(loaded))


def test_an_array_may_take_all_memory() -> None:
    """4,096 words, and no thread needs any for itself; what lies behind them cannot be touched."""
    body = "mov.u32 %r0, %tid.x; ld.param.u64 %d1, [a]; st.global.u32 [%d1+16380], 7;"
    body += "setp.eq.u32 %p1, %r0, 3; @%p1 st.global.u32 [%d1+16384], 8; ret;"
    result = emulate(kernel(body, "a = u32[4096]", block="4"))
    assert result.trap == "<trap lane 3: out of bounds>"
    assert {int(n): int(result.array("a")[n]) for n in result.array("a").nonzero()[0]} == {4095: 7}
