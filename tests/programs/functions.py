"""Device functions: two 32-bit parameters, one result, control flow of their own and no memory."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from programs.sizes import PREDICATES, VARIABLES
from programs.writer import Writer


@dataclass(frozen=True)
class Function:
    """A `.func` as PTX."""

    name: str
    text: str


def declared(draw: st.DrawFn) -> list[Function]:
    """One to three functions, of which a later one may call those before it."""
    found: list[Function] = []
    for number in range(draw(st.integers(1, 3))):
        writer = Writer(draw, 5, 1, frozenset(), memory=False)
        writer.functions = [function.name for function in found]
        writer.statements(1)
        body = "\n".join(writer.lines).replace(" ret;", " bra $DONE;")
        text = (
            f".func (.param .b32 result) f{number}(.param .b32 x, .param .b32 y)\n{{\n{_HEAD}{body}\n{_TAIL}"
        )
        found.append(Function(f"f{number}", text))
    return found


_HEAD = f""".reg .pred %p<{PREDICATES + 1}>; .reg .pred %q<64>;
.reg .b16 %h<4>; .reg .b32 %v<{VARIABLES}>; .reg .b32 %r<12>; .reg .b32 %c<64>; .reg .b64 %d<8>;
ld.param.b32 %v0, [x]; ld.param.b32 %v1, [y]; mov.u32 %r0, %v0; mov.u32 %r6, 3; mov.u32 %r8, %v1;
mov.u32 %v2, 0; mov.u32 %v3, 1; mov.u32 %v4, %v0; mov.u32 %v5, %v1; mov.u32 %v6, 77; mov.u32 %v7, -3;
mov.u64 %d3, 5; mov.u64 %d4, -1; setp.eq.u32 %p0, %v0, 0; setp.lt.u32 %p1, %v0, %v1;
setp.ne.u32 %p2, %v1, 0; setp.eq.u32 %p3, 0, 0;
"""
_TAIL = "$DONE: xor.b32 %v0, %v0, %v1; add.u32 %v0, %v0, %v2; st.param.b32 [result], %v0; ret; }"
