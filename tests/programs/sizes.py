"""What the parts of a random program agree on."""

VARIABLES, PREDICATES = 8, 4
#: Words of `out` that belong to a thread: its variables, and room for stores.
OWN = 12
INPUTS = 16
CONSTANTS = (
    0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 0xFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC,
)  # fmt: skip
