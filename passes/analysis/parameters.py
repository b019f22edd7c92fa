"""Kernel parameters by meaning: what a person calls PTX parameter number k."""

from __future__ import annotations

from collections.abc import Mapping

from hybridcc.passes.kernel import Argument, Kernel
from hybridcc.ptx.nodes import Function


def parameter_numbers(function: Function) -> Mapping[str, int]:
    """PTX parameter names to their positions."""
    return {d.name: k for k, d in enumerate(d for p in function.parameters for d in p.names)}


def parameter_meanings(kernel: Kernel, function: Function) -> tuple[str, ...]:
    """For each PTX parameter "data pointer of x", "x.shape[0]", "alpha"; "parameter 3" where only PTX is known."""
    known = [_meaning(argument, field.role, field.axis) for argument in kernel.arguments for field in argument.fields]
    count = len(parameter_numbers(function))
    if len(known) == count:
        return tuple(known)
    return tuple(f"parameter {k}" for k in range(count))


def _meaning(argument: Argument, role: str, axis: int) -> str:
    match role:
        case "data":
            return f"data pointer of {argument.name}"
        case "shape":
            return f"{argument.name}.shape[{axis}]"
        case "stride":
            return f"{argument.name}.strides[{axis}]"
        case "nitems":
            return f"{argument.name}.size"
        case "value":
            return argument.name
        case _:
            return f"{argument.name}.{role}"
