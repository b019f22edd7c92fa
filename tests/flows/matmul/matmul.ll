target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare float @llvm.fma.f32(float, float, float)

define ptx_kernel void @matmul(ptr addrspace(1) noalias readonly align 16 %a, ptr addrspace(1) noalias readonly %b,
                               ptr addrspace(1) noalias %c, i64 range(i64 0, 65536) %n) "nvvm.maxntid"="256" {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %dx = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %dy = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %ox = mul i32 %bx, %dx
  %oy = mul i32 %by, %dy
  %j32 = add i32 %ox, %tx
  %i32 = add i32 %oy, %ty
  %j = zext i32 %j32 to i64
  %i = zext i32 %i32 to i64
  %inj = icmp slt i64 %j, %n
  %ini = icmp slt i64 %i, %n
  %in = and i1 %inj, %ini
  br i1 %in, label %head, label %done

head:
  %row = mul i64 %i, %n
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %store

loop:
  %k = phi i64 [ 0, %head ], [ %next, %loop ]
  %t = phi float [ 0.0, %head ], [ %sum, %loop ]
  %ia = add i64 %row, %k
  %kn = mul i64 %k, %n
  %ib = add i64 %kn, %j
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %ia
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %ib
  %x = load float, ptr addrspace(1) %pa, align 4
  %y = load float, ptr addrspace(1) %pb, align 4
  %sum = call float @llvm.fma.f32(float %x, float %y, float %t)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %store

store:
  %r = phi float [ 0.0, %head ], [ %sum, %loop ]
  %ic = add i64 %row, %j
  %pc = getelementptr float, ptr addrspace(1) %c, i64 %ic
  store float %r, ptr addrspace(1) %pc, align 4
  br label %done

done:
  ret void
}
