"""Host arrays as arguments of a selected variant: copied over, launched, copied back, as Numba does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridcc.passes.kernel import ArrayType
from hybridcc.runtime.driver import stream_handle
from hybridcc.runtime.launch import Geometry, Launcher
from hybridcc.runtime.parameters import layout_strides


class _Copied:
    """A device copy by its ``__cuda_array_interface__``."""

    def __init__(self, view: Any, array: ArrayType) -> None:
        import numpy as np

        dtype = np.dtype(array.dtype)
        shape = tuple(view.shape)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "strides": layout_strides(shape, dtype.itemsize, array.layout),
            "data": (int(view.ptr), array.readonly),
            "typestr": dtype.str,
            "version": 3,
        }


def launch_with_copies(launcher: Launcher, geometry: Geometry, args: Sequence[Any]) -> bool:
    """False, with nothing launched, if an argument is of no kind that can be copied here (Numba's launch can)."""
    import numpy as np
    from numba.cuda.args import ArgHint, wrap_arg

    stream = stream_for_numba(int(geometry[-1]), core=True)
    back: list[Callable[[], Any]] = []
    values: list[Any] = []
    for argument, value in zip(launcher.arguments, args, strict=True):
        if isinstance(value, np.ndarray | ArgHint):
            if not isinstance(argument.type, ArrayType) or argument.type.layout == "A":
                return False
            value = _Copied(wrap_arg(value).to_device(back, stream), argument.type)
        values.append(value)
    flat = launcher.read(values)
    if flat is None or launcher.launch(geometry, flat):
        return False
    for copy in back:
        copy()
    return True


def stream_for_numba(stream: Any, *, core: bool = False) -> Any:
    """What Numba takes in place of any stream; ``core`` gives cuda.core's, which its copies want."""
    from numba.cuda.cudadrv import driver

    if not core:
        known = (driver.Stream, driver.ExperimentalStream, driver.GraphBuilder)
        if not stream or isinstance(stream, known):
            return stream
    handle = stream_handle(stream)
    return driver.ExperimentalStream.from_handle(handle)
