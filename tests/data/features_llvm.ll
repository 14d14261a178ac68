target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
@counter = addrspace(1) global i32 -7, align 4
@table = addrspace(4) constant [4 x float] [float 1.0, float -2.5, float 0.0, float 4.0], align 16
@wide = addrspace(1) global { i32, ptr, i16 } { i32 5, ptr addrspacecast (ptr addrspace(1) @counter to ptr), i16 -1 }, align 8
@packed = addrspace(1) global <{ i8, ptr addrspace(1) }> <{ i8 9, ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @counter, i64 4) }>, align 1
@partial = internal addrspace(3) global [32 x i32] undef, align 4
@fns = addrspace(1) global [2 x ptr] [ptr @twice, ptr @thrice], align 8
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
define internal i32 @twice(i32 %x) noinline { %r = shl i32 %x, 1 ret i32 %r }
define internal i32 @thrice(i32 %x) noinline { %r = mul i32 %x, 3 ret i32 %r }
define internal { i32, float } @both(i32 %x, [3 x i32] %y) noinline { %f = sitofp i32 %x to float %e = extractvalue [3 x i32] %y, 1 %a = insertvalue { i32, float } poison, i32 %e, 0 %b = insertvalue { i32, float } %a, float %f, 1 ret { i32, float } %b }
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %in, i32 %n, ptr byval({ i32, [3 x i8], double }) align 8 %s) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = icmp sge i32 %i, %n
  br i1 %c, label %done, label %loop
loop:
  %j = phi i32 [ %i, %entry ], [ %j2, %latch ]
  %acc = phi i32 [ 0, %entry ], [ %acc3, %latch ]
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %j
  %v = load volatile i32, ptr addrspace(1) %p
  switch i32 %v, label %d0 [ i32 0, label %d1 i32 1, label %d2 i32 2, label %d3 i32 3, label %d0 i32 4, label %d2 i32 5, label %d1 i32 6, label %d3 ]
d0: 
  br label %latch
d1:
  %t1 = call i32 @twice(i32 %v)
  br label %latch
d2:
  %o = and i32 %v, 1
  %fp = getelementptr [2 x ptr], ptr addrspace(1) @fns, i32 0, i32 %o
  %f = load ptr, ptr addrspace(1) %fp
  %t2 = call i32 %f(i32 %v)
  br label %latch
d3:
  %q = insertvalue [3 x i32] zeroinitializer, i32 %v, 1
  %t3s = call { i32, float } @both(i32 %v, [3 x i32] %q)
  %t3 = extractvalue { i32, float } %t3s, 0
  br label %latch
latch:
  %t = phi i32 [ 3, %d0 ], [ %t1, %d1 ], [ %t2, %d2 ], [ %t3, %d3 ]
  %acc3 = add i32 %acc, %t
  %sp = getelementptr i32, ptr addrspace(3) @partial, i32 %i
  store i32 %acc3, ptr addrspace(3) %sp
  call void @llvm.nvvm.barrier0()
  %j2 = add i32 %j, 32
  %again = icmp slt i32 %j2, %n
  br i1 %again, label %loop, label %done2
done2:
  %vv = load <4 x float>, ptr addrspace(4) @table
  %w = fmul <4 x float> %vv, <float 2.0, float 2.0, float 2.0, float 2.0>
  store <4 x float> %w, ptr addrspace(1) %out
  %sa = load i32, ptr %s
  %old = atomicrmw add ptr addrspace(1) @counter, i32 %sa seq_cst
  store i32 %old, ptr addrspace(1) %in
  br label %done
done: 
  ret void
}
