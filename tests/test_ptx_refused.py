"""Types and modifiers that PTX does not have are refused where they are executed, never computed somehow."""

from __future__ import annotations

import pytest
from ptx_runner import run

from qdbg.runtime.interpreter import Unsupported

REFUSED = """
add.u8 %h1, %h2, %h3
add.b32 %r1, %r2, %r3
add.sat.s64 %d1, %d2, %d3
add.cc.u16 %h1, %h2, %h3
add.cc.sat.s32 %r1, %r2, %r3
add.rn.rz.f32 %f1, %f2, %f3
add.rn.u32 %r1, %r2, %r3
add.ftz.f64 %d1, %d2, %d3
add.sat.f64 %d1, %d2, %d3
add.rz.f16 %h1, %h2, %h3
add.ftz.bf16 %h1, %h2, %h3
add.sat.bf16 %h1, %h2, %h3
mul.u32 %r1, %r2, %r3
mul.lo.hi.u32 %r1, %r2, %r3
mul.wide.u64 %d1, %d2, %d3
mad.lo.sat.s32 %r1, %r2, %r3, %r4
mad.f32 %f1, %f2, %f3, %f4
fma.f32 %f1, %f2, %f3, %f4
fma.rz.f16 %h1, %h2, %h3, %h4
fma.rn.sat.relu.f16 %h1, %h2, %h3, %h4
mul24.lo.u64 %d1, %d2, %d3
div.f32 %f1, %f2, %f3
div.approx.f64 %d1, %d2, %d3
div.rn.approx.f32 %f1, %f2, %f3
div.rn.sat.f32 %f1, %f2, %f3
rem.f32 %f1, %f2, %f3
rcp.f64 %d1, %d2
rcp.approx.f64 %d1, %d2
sqrt.approx.f64 %d1, %d2
ex2.f32 %f1, %f2
ex2.approx.f64 %d1, %d2
ex2.approx.bf16 %h1, %h2
tanh.approx.ftz.f32 %f1, %f2
sin.rn.f32 %f1, %f2
neg.u32 %r1, %r2
abs.ftz.f64 %d1, %d2
min.NaN.f64 %d1, %d2, %d3
min.abs.f32 %f1, %f2, %f3
min.xorsign.f32 %f1, %f2, %f3
max.xorsign.abs.f32 %f1, %f2, %f3, %f4
min.f64 %d1, %d2, %d3, %d4
and.u32 %r1, %r2, %r3
shl.u32 %r1, %r2, %r3
not.s32 %r1, %r2
popc.u32 %r1, %r2
lop3.u32 %r1, %r2, %r3, %r4, 1
lop3.b32 %r1, %r2, %r3, %r4, 256
lop3.xor.b32 %r1|%p1, %r2, %r3, %r4, 1, %p2
lop3.or.b32 %r1, %r2, %r3, %r4, 1
lop3.b32 %r1|%p1, %r2, %r3, %r4, 1, %p2
add.f16 %h1, %h2, 15360
slct.f64.f32 %d1, 1.0, %d2, %f1
bfe.b32 %r1, %r2, %r3, %r4
bfi.u32 %r1, %r2, %r3, %r4, %r5
bmsk.b32 %r1, %r2, %r3
shf.l.b32 %r1, %r2, %r3, %r4
shf.l.wrap.b64 %d1, %d2, %d3, %r4
prmt.u32 %r1, %r2, %r3, %r4
szext.u32 %r1, %r2, %r3
szext.wrap.b32 %r1, %r2, %r3
fns.u32 %r1, %r2, %r3, %r4
dp4a.u32 %r1, %r2, %r3, %r4
dp2a.u32.u32 %r1, %r2, %r3, %r4
sad.f32 %f1, %f2, %f3, %f4
setp.f32 %p1, %f1, %f2
setp.lt.b32 %p1, %r1, %r2
setp.lo.s32 %p1, %r1, %r2
setp.num.u32 %p1, %r1, %r2
setp.eq.lt.u32 %p1, %r1, %r2
setp.eq.ftz.f64 %p1, %d1, %d2
setp.eq.f16x2 %p1, %r1, %r2
setp.eq.pred %p1, %p2, %p3
set.eq.u16.u32 %h1, %r1, %r2
set.eq.f64.u32 %d1, %r1, %r2
set.eq.u32 %r1, %r2, %r3
slct.u32.u32 %r1, %r2, %r3, %r4
slct.ftz.u32.s32 %r1, %r2, %r3, %r4
selp.pred %p1, %p2, %p3, %p4
copysign.f16 %h1, %h2, %h3
testp.f32 %p1, %f1
testp.finite.f16 %p1, %h1
cvt.f32.s32 %f1, %r1
cvt.rni.f32.s32 %f1, %r1
cvt.rn.s32.f32 %r1, %f1
cvt.rn.s32.s32 %r1, %r2
cvt.rn.f64.f32 %d1, %f1
cvt.f32.f64 %f1, %d1
cvt.rni.f32.f64 %f1, %d1
cvt.f16.f32 %h1, %f1
cvt.rm.f16x2.f32 %r1, %f1, %f2
cvt.rn.sat.bf16.f32 %h1, %f1
cvt.rn.ftz.f64.s32 %d1, %r1
cvt.u32 %r1, %r2
cvt.b32.b32 %r1, %r2
"""


@pytest.mark.parametrize("instruction", REFUSED.strip().splitlines())
def test_what_ptx_does_not_have_is_refused(instruction: str) -> None:
    with pytest.raises(Unsupported, match=r"^test\.ptx:\d+: `"):
        run(f"{instruction}; ret;", "out = u32[1]")
