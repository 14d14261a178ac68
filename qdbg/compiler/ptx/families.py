"""Families of PTX instructions, by which a kernel says what it needs and the machine what it has.

They are in the order in which real kernels come to need them.  Who executes all instructions of families
A to G runs about half of the kernels that people publish.  R and S are the parts of O and Q that a machine
of integers without a stack must tell apart.
"""

from __future__ import annotations

FAMILIES: dict[str, str] = {
    "A": "32-bit integers, predicates, addresses, global memory, branches",
    "B": "float arithmetic",
    "C": "shared memory, bar.sync",
    "D": "the low half of 64-bit arithmetic",
    "E": "integer division",
    "F": "conversions between integers and floats; float div, sqrt, rcp, rounded",
    "G": "32-bit atomics",
    "H": "constant memory, vectors of two and four, packing, barrier.sync, membar",
    "I": "ex2, lg2, rsqrt and other approximations; directed rounding, saturation",
    "J": "8- and 16-bit data",
    "K": "shuffles, bar.warp.sync",
    "L": "64-bit integers",
    "M": "bits: popc, clz, brev, bfe, bfi, prmt, shf, lop3, dp4a, mul.hi; votes; float to integral float",
    "N": "local memory",
    "O": "calls",
    "P": "double precision",
    "Q": "half precision, clocks, everything else",
    "R": "recursion",
    "S": "generic addresses, 64-bit atomics, barriers that reduce",
}
