// A matrix product in linalg; examples/linalg.py takes it to a kernel.
func.func @matmul(%a: memref<64x48xf32>, %b: memref<48x64xf32>, %c: memref<64x64xf32>) {
  linalg.matmul ins(%a, %b : memref<64x48xf32>, memref<48x64xf32>) outs(%c : memref<64x64xf32>)
  return
}
