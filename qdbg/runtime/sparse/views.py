"""Inside compiled code: views of the arrays that a `Table` lists.

A function gets the table's address and makes views of what it needs.  To hand whole models from function
to function as tuples of a hundred arrays would take numba most of a minute to compile.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from qdbg.runtime.sparse.compiled import compiled
from qdbg.runtime.sparse.model import AT, BLOCK, Entries, Geometry
from qdbg.runtime.sparse.pack import Columns, Lists


def _number(builder: Any, table: Any, at: Any) -> Any:
    """The code that reads a number of a table."""
    return builder.load(builder.gep(builder.inttoptr(table, cgutils.intp_t.as_pointer()), [at]))


def _view(element: Any) -> Any:
    """An intrinsic (table, at, shape) -> the array that has its entry there, C order, unchecked."""

    def typed(_typing: Any, _table: Any, _at: Any, shape: Any) -> Any:
        kind = types.Array(element, len(shape), "C")

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array = arrayobj.make_array(kind)(context, builder)  # type: ignore[no-untyped-call]
            sizes = cgutils.unpack_tuple(builder, arguments[2])  # type: ignore[no-untyped-call]
            size = context.get_constant(types.intp, context.get_abi_sizeof(array.data.type.pointee))
            strides = [size]
            for length in reversed(sizes[1:]):
                strides.insert(0, builder.mul(strides[0], length))
            data = builder.inttoptr(_number(builder, *arguments[:2]), array.data.type)
            arrayobj.populate_array(array, data, sizes, strides, size, None)  # type: ignore[no-untyped-call]
            return array._getvalue()

        return kind(types.int64, types.int64, shape), generate

    return intrinsic(typed)


def _read_number(_typing: Any, _table: Any, _at: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _number(builder, *arguments)

    return types.int64(types.int64, types.int64), generate


#: (table, at) -> the number there.
number: Any = intrinsic(_read_number)
float32s, uint32s = _view(types.float32), _view(types.uint32)
int64s, uint8s = _view(types.int64), _view(types.uint8)


@compiled
def geometry(t: int) -> Geometry:
    """The sizes."""
    return Geometry(
        number(t, 0), number(t, 1), number(t, 2), number(t, 3), number(t, 4), number(t, 5), number(t, 6),
        number(t, 7), number(t, 8), number(t, 9),
    )  # fmt: skip


@compiled
def taps(t: int) -> int:
    """How many inputs the convolution sees."""
    return int(number(t, AT.tap_used + 1) // number(t, 0))


@compiled
def lists(t: int, at: int) -> Lists:
    """The sparse rows that have their entries from `at` on."""
    return Lists(
        uint32s(t, at, (number(t, at + 1),)),
        uint32s(t, at + 2, (number(t, at + 3),)),
        uint32s(t, at + 4, (number(t, at + 5),)),
        float32s(t, at + 6, (number(t, at + 7),)),
    )


@compiled
def columns(t: int, at: int) -> Columns:
    """The sparse columns that have their entries from `at` on."""
    return Columns(
        uint32s(t, at, (number(t, at + 1),)),
        uint32s(t, at + 2, (number(t, at + 3),)),
        uint32s(t, at + 4, (number(t, at + 5),)),
        uint32s(t, at + 6, (number(t, at + 7),)),
        float32s(t, at + 8, (number(t, at + 9),)),
        uint32s(t, at + 10, (number(t, at + 11),)),
        uint32s(t, at + 12, (number(t, at + 13),)),
        float32s(t, at + 14, (number(t, at + 15),)),
    )


@compiled
def entries(t: int, at: int) -> Entries:
    """The keys or queries that have their entries from `at` on."""
    shape = (BLOCK, number(t, at + 1) // BLOCK)
    return Entries(uint32s(t, at, shape), float32s(t, at + 2, shape), int64s(t, at + 4, (BLOCK,)))
