"""Places in memory by name, index, address and register."""

from __future__ import annotations

from pathlib import Path

import blocks
import fakes
import pytest

from qdbg.runtime.commands import CommandError
from qdbg.runtime.places import locate
from qdbg.runtime.session import Session
from qdbg.runtime.view import View


def at_the_store() -> Session:
    """`fakes`, where every address of the launch has been computed."""
    session = fakes.session()
    session.run_to(fakes.STORE_LINE)
    return session


def found(view: View, text: str) -> tuple[str, int]:
    array, word = locate(view, text)
    return array.name, word


def test_elements_and_addresses() -> None:
    view = at_the_store().view()
    base = view.memory[0].address
    assert found(view, "out") == ("out", 0)
    assert found(view, "out[3]") == found(view, "out [ 0x3 ]") == ("out", 3)
    assert found(view, str(base + 8)) == found(view, f"{base + 11:#x}") == ("out", 2)


def test_a_register_is_followed_in_the_focused_lane() -> None:
    """%rd4 is the address of the thread's own element, folded into the store."""
    session = at_the_store()
    session.set_focus(2)
    assert found(session.view(), "%rd4") == ("out", 2)


@pytest.mark.parametrize(("text", "element"), [("out[5]", 5), ("shared[7]", 7)])
def test_an_index_counts_elements_and_a_place_words(tmp_path: Path, text: str, element: int) -> None:
    view = blocks.started(blocks.prepared(tmp_path, "bytes")).view()
    array, word = locate(view, text)
    assert word == element * array.dtype.itemsize // 4


def test_shared_memory_has_addresses_of_its_own(tmp_path: Path) -> None:
    """Those that a kernel computes count from the start of the block's shared memory."""
    view = blocks.started(blocks.prepared(tmp_path, "bytes")).view()
    (shared,) = (array for array in view.memory if array.name == "shared")
    assert found(view, "0x4") == found(view, str(shared.address + 4)) == ("shared", 1)
    with pytest.raises(CommandError, match="is in no array"):
        locate(view, str(shared.machine.nbytes))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "give a place"),
        ("out[", "give a place"),
        ("out[4]", "out has no element 4: its 4 are numbered from 0"),
        ("out[x]", "'x' is not an index"),
        ("0x", "'0x' is not an address"),
        ("nothing", "there is no array and no register 'nothing': memory has out"),
        ("%r3[1]", "there is no array '%r3': memory has out"),
        ("0x4", "0x4 is in no array: memory has out"),
        ("%rd4", "%rd4 has no value yet in this lane"),
    ],
)
def test_what_is_no_place_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CommandError) as error:
        locate(fakes.session().view(), text)
    assert str(error.value).startswith(sentence)
