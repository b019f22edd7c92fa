"""Kernels as users of Numba write them, each with a CUDA C++ twin, raced in one run."""
