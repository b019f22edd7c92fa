module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @matmul(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>, %n: index) kernel {
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %dx = gpu.block_dim x
      %dy = gpu.block_dim y
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %ox = arith.muli %bx, %dx : index
      %oy = arith.muli %by, %dy : index
      %j = arith.addi %ox, %tx : index
      %i = arith.addi %oy, %ty : index
      %inj = arith.cmpi slt, %j, %n : index
      %ini = arith.cmpi slt, %i, %n : index
      %in = arith.andi %inj, %ini : i1
      scf.if %in {
        %r = scf.for %k = %c0 to %n step %c1 iter_args(%t = %zero) -> (f32) {
          %x = memref.load %a[%i, %k] : memref<?x?xf32>
          %y = memref.load %b[%k, %j] : memref<?x?xf32>
          %s = math.fma %x, %y, %t : f32
          scf.yield %s : f32
        }
        memref.store %r, %c[%i, %j] : memref<?x?xf32>
      }
      gpu.return
    }
  }
}
