"""hybridcc as a pass in other compilers' flows: MLIR's pass manager (mlir.py), LLVM IR (llvm.py).

They stand above the pipeline, which they run from frontend to selection; ``passes`` imports neither.
"""

from hybridcc.flows.module import CompiledModule, FlowOptions, compile_module

__all__ = ["CompiledModule", "FlowOptions", "compile_module"]
