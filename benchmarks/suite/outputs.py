"""What each contender computes on the GPU, against NumPy, and whether stock Numba's code is what Numba launches.

Runs in the calling process, after the races: a launch that faults spoils what comes after it here, and no race.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.suite.building import Built
from benchmarks.suite.case import Case, error_of
from hybridcc.passes.verify.launch import Launch, buffers, copy
from hybridcc.runtime import race_job
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.launch import LoadedKernel
from hybridcc.runtime.race_job import Contender, Parameters

SIZE = "small"


def check(case: Case, built: Built) -> dict[str, Any]:
    """Largest error by contender, relative to the reference's largest element, and whether all are within the case's
    tolerance (fastmath has none to keep). Raises DeviceError where a launch fails."""
    given = case.launch(SIZE)
    wanted = case.reference(*given.values)
    stock = race_job.parameters_of(case.arguments, given)
    twin = replace(built.twin, parameters=race_job.packed(case.cuda_arguments(*given.values), given))
    errors: dict[str, float] = {}
    for contender in (built.stock, built.fastmath, *(v.contender for v in built.variants), twin):
        ran = _run(contender, contender.parameters or stock, given)
        left = dict(zip(case.parameters, ran.values, strict=True))
        errors[contender.name] = max(error_of(np.asarray(left[name]), each) for name, each in wanted.items())
    exact = [name for name in errors if name != built.fastmath.name]
    return {"errors": errors, "tolerance": case.tolerance, "right": all(errors[n] <= case.tolerance for n in exact)}


def _run(contender: Contender, parameters: Parameters, given: Launch) -> Launch:
    """A copy of the launch with what the kernel leaves."""
    ran = copy(given)
    driver = bindings()
    use_primary_context()
    roots = buffers(ran)
    addresses = [int(call(driver.cuMemAlloc, max(1, root.nbytes))) for root in roots]
    loaded = LoadedKernel(contender.cubin, contender.entry)
    try:
        for address, root in zip(addresses, roots, strict=True):
            call(driver.cuMemcpyHtoD, address, root.ctypes.data, root.nbytes)
        data = parameters.filled(addresses)
        memory = ctypes.create_string_buffer(data, len(data))
        base = ctypes.addressof(memory)
        pointers = (ctypes.c_void_p * len(parameters.offsets))(*(base + offset for offset in parameters.offsets))
        shape = (*ran.grid, *ran.block, ran.shared_bytes, 0)
        call(driver.cuLaunchKernel, loaded.function, *shape, ctypes.addressof(pointers), 0)
        call(driver.cuCtxSynchronize)
        for address, root in zip(addresses, roots, strict=True):
            call(driver.cuMemcpyDtoH, root.ctypes.data, address, root.nbytes)
    finally:
        for address in addresses:
            call(driver.cuMemFree, address)
        loaded.unload()
    return ran


def stock_is_numbas(case: Case, built: Built) -> bool:
    """Whether what raced as stock is, but for the kernel's name, the machine code that Numba loads here."""
    from hybridcc.frontends.numba import prepare

    prepare()
    from numba import cuda

    compiled = cuda.jit(**case.kernel.options)(case.kernel.py_func).compile(tuple(case.kernel.signatures[0]))
    cubin = compiled._codelibrary.get_cubin()
    return same_code(built.stock, Contender("numba", bytes(getattr(cubin, "code", cubin)), compiled.entry_name))


def same_code(one: Contender, other: Contender) -> bool:
    """Whether two cubins are one program to the last byte, but for the kernel's name."""
    from hybridcc.runtime.given_cubin import examine

    def code(contender: Contender) -> list[tuple[str, bytes]]:
        found = examine(contender.cubin, contender.name)
        return sorted((name.replace(contender.entry, "*"), content) for name, content in found.code)

    return code(one) == code(other)
