"""Arrays across the bus: host arrays for a launch of a selected variant, and device arrays to the host for a race."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Argument, ArrayType, ScalarType
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
    flat = launcher.read(values, int(geometry[-1]))
    if flat is None or launcher.launch(geometry, flat):
        return False
    for copy in back:
        copy()
    return True


def stream_for_numba(stream: Any, *, core: bool = False) -> Any:
    """What Numba takes in place of any stream; ``core`` gives cuda.core's, which its copies want."""
    from numba.cuda.cudadrv import driver as numba_driver

    driver: Any = numba_driver  # it imports these names under a condition
    if not core:
        known = (driver.Stream, driver.ExperimentalStream, driver.GraphBuilder)
        if not stream or isinstance(stream, known):
            return stream
    handle = stream_handle(stream)
    return driver.ExperimentalStream.from_handle(handle)


def to_host(arguments: Sequence[Argument], args: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, int]]:
    """(NumPy values with the sharing between device arrays kept, device address of each buffer by the ``id`` of its
    host copy). Device arrays whose memory overlaps become views of one buffer.

    Raises InputError for a value that is neither an array nor a number.
    """
    import numpy as np

    places = [place_of(argument, value) for argument, value in zip(arguments, args, strict=True)]
    spans = [span_of(place) for place in places if place is not None and 0 not in place.shape]
    copies = {begin: _fetch(begin, end) for begin, end in _merged(spans)}
    values: list[Any] = []
    for argument, value, place in zip(arguments, args, places, strict=True):
        if place is None:
            values.append(_host_value(argument, value))
        elif 0 in place.shape:
            values.append(np.empty(place.shape, place.dtype))
        else:
            first = span_of(place)[0]
            begin = max(start for start in copies if start <= first)
            values.append(np.ndarray(place.shape, place.dtype, copies[begin], place.address - begin, place.strides))
    return tuple(values), {id(copy): begin for begin, copy in copies.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """An array in device memory; strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


def _array_type(argument: Argument) -> ArrayType:
    if not isinstance(argument.type, ArrayType):
        raise InputError(
            f"argument {argument.name} is a {argument.type.dtype}, an array was given", next_step="pass a number"
        )
    return argument.type


def place_of(argument: Argument, value: Any) -> Place | None:
    """None for what is on the host."""
    import numpy as np

    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    dtype = np.dtype(_array_type(argument).dtype)
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    given = tuple(strides) if strides else layout_strides(shape, dtype.itemsize, "C")
    return Place(interface["data"][0], shape, given, dtype)


def span_of(place: Place) -> tuple[int, int]:
    """First address and the one past the last."""
    steps = [(extent - 1) * stride for extent, stride in zip(place.shape, place.strides, strict=True)]
    begin = place.address + sum(step for step in steps if step < 0)
    return begin, place.address + sum(step for step in steps if step > 0) + place.dtype.itemsize


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap become one, in order of address."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _fetch(begin: int, end: int) -> Any:
    """The device's bytes on the host, once everything queued has run."""
    import numpy as np

    from hybridcc.runtime.driver import bindings, call

    driver = bindings()
    data = np.empty(end - begin, np.uint8)
    call(driver.cuCtxSynchronize)
    call(driver.cuMemcpyDtoH, data.ctypes.data, begin, data.nbytes)
    return data


def _host_value(argument: Argument, value: Any) -> object:
    import numpy as np

    value = getattr(value, "value", value) if type(value).__name__ in ("In", "Out", "InOut") else value
    match argument.type:
        case ScalarType(dtype):
            return np.dtype(dtype).type(value)
        case ArrayType() if isinstance(value, np.ndarray):
            return value.copy(order="K")
        case _:
            raise InputError(
                f"argument {argument.name} is a {type(value).__name__}, neither an array nor a number",
                next_step="pass what Numba takes for this signature",
            )
