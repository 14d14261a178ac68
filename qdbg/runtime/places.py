"""Places in memory as a person names them: `a`, `a[40]`, `shared[3]`, `0x1200`, `%rd4`."""

from __future__ import annotations

import re

from qdbg.runtime.commands import CommandError, whole_number
from qdbg.runtime.view import SHARED, MemoryArray, View

_PLACE = re.compile(r"(?P<name>[%$\w]+)\s*(?:\[\s*(?P<index>\w+)\s*\])?")


def locate(view: View, text: str) -> tuple[MemoryArray, int]:
    """The array that a place is in, and the number of its 32-bit word there.

    `NAME[INDEX]` is an element of an array, counted in the array's own type; a number is an address, and
    so is a register: what it holds in the focused lane.  An address in no array may be one of shared memory,
    whose own addresses start at 0.  Raises CommandError.
    """
    arrays = arrays_of(view)
    match = _PLACE.fullmatch(text)
    if match is None:
        raise CommandError("give a place: out, out[40], shared, 0x1200, or %rd4 for where it points")
    name, index = match["name"], match["index"]
    array = next((a for a in arrays if a.name == name), None)
    if array is not None:
        count = array.machine.nbytes // array.dtype.itemsize
        at = whole_number(index or "0", "an index")
        if not 0 <= at < max(count, 1):
            raise CommandError(f"{name} has no element {at}: its {count} are numbered from 0")
        return array, at * array.dtype.itemsize // 4
    if index is not None:
        raise CommandError(f"there is no array {name!r}: {_names(arrays)}")
    address = _address(view, name, arrays)
    for array in arrays:
        if array.address <= address < array.address + array.machine.nbytes:
            return array, (address - array.address) // 4
    for array in arrays:
        if array.name == SHARED and address < array.machine.nbytes:
            return array, address // 4
    raise CommandError(f"{address:#x} is in no array: {_names(arrays)}")


def arrays_of(view: View) -> list[MemoryArray]:
    """The arrays that the focused thread sees."""
    return [array for array in view.memory if array.seen_by(view.focus)]


def _address(view: View, name: str, arrays: list[MemoryArray]) -> int:
    """An address that is written as a number or as a register."""
    row = next((row for row in view.registers if row.name == name), None)
    if row is None:
        if not name[0].isdigit():
            raise CommandError(f"there is no array and no register {name!r}: {_names(arrays)}")
        return whole_number(name, "an address")
    value = row.machine[view.focus]
    value = row.interpreter[view.focus] if value is None else value
    if value is None:
        raise CommandError(f"{name} has no value yet in this lane")
    return value


def _names(arrays: list[MemoryArray]) -> str:
    return f"memory has {', '.join(array.name for array in arrays) or 'no array'}"
