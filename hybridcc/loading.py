"""``hybridcc.load``: kernels from what a build left, with no compiler, no model and no Numba.

    kernels = hybridcc.load("out")                # or one bundle: a folder, or a .zip
    kernels["conv1d"][grid, block](x, w, y)       # also [grid, block, stream] and [grid, block, stream, shared_bytes]

Nothing is touched before the first launch; then the driver loads the code that fits the device.
"""

from __future__ import annotations

import ctypes
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridcc.errors import InputError
from hybridcc.runtime import bundle as bundles
from hybridcc.runtime.bundle import Bundle
from hybridcc.runtime.choice import Capability, Choice
from hybridcc.runtime.driver import bindings, call, current_ordinal, stream_handle, use_primary_context
from hybridcc.runtime.passing import packed

if TYPE_CHECKING:
    from hybridcc.runtime.loaded import LoadedKernel

SELECTED, BASELINE = "selected", "baseline"
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
"""CU_LAUNCH_PARAM_BUFFER_POINTER and its kin (CUDA driver API, cuLaunchKernel)."""


class CompiledByDriver(UserWarning):
    """No machine code in a bundle is for the device."""


class Kernels(Mapping[str, "BundledKernel"]):
    """Kernels by name."""

    def __init__(self, kernels: Mapping[str, BundledKernel]) -> None:
        self._kernels = dict(kernels)

    def __getitem__(self, name: str) -> BundledKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return f"Kernels({', '.join(self._kernels)})"


def load(place: str | Path, *, tune: bool = False, selections: str | Path | None = None) -> Kernels:
    """The kernels of a bundle, or of a folder of bundles.

    ``selections`` is a file that ``hybridcc tune -o`` wrote, which counts for the bundle that it was made for. With
    ``tune`` the first launch on a device races the variants that the bundle holds and that its policy accepts, on the
    launch's own values, and this process goes on with the fastest. Raises InputError for what is no bundle.
    """
    path = Path(place)
    chosen = {} if selections is None else read_selections(Path(selections))
    found = [BundledKernel(each, tune, _selections(each, chosen, selections)) for each in bundles_in(path)]
    return Kernels({kernel.name: kernel for kernel in found})


def _selections(bundle: Bundle, chosen: Mapping[str, Selections], place: object) -> Mapping[str, str]:
    own = chosen.get(bundle.name)
    if own is None:
        return {}
    if own.bundle != bundle.identity:
        raise InputError(
            f"was made for another build of {bundle.name}",
            where=str(place),
            next_step=f"race this one: hybridcc tune {bundle.folder} -o {place}",
        )
    return own.variants


def bundles_in(path: Path) -> Iterator[Bundle]:
    """The bundle, or those of a folder in order of name. Raises InputError where there is none."""
    if path.is_dir() and not (path / bundles.MANIFEST).is_file():
        inside = sorted(p for p in path.iterdir() if p.suffix == ".zip" or (p / bundles.MANIFEST).is_file())
        if inside:
            yield from map(bundles.load, inside)
            return
    yield bundles.load(path)


@dataclass(slots=True)
class BundledKernel:
    """One kernel. ``selections`` are variants by architecture that take the place of the bundle's own."""

    bundle: Bundle
    tune: bool = False
    selections: Mapping[str, str] = field(default_factory=dict)
    _loaded: dict[Capability, LoadedKernel] = field(default_factory=dict, repr=False)
    _here: dict[int, LoadedKernel] = field(default_factory=dict, repr=False)
    """By device: what was asked of the driver once is not asked at every launch."""

    @property
    def name(self) -> str:
        return self.bundle.name

    def __getitem__(self, geometry: Any) -> Callable[..., None]:
        """``[grid, block]``, with a stream and bytes of dynamic shared memory if need be."""
        parts = geometry if isinstance(geometry, tuple) else (geometry,)
        if not 2 <= len(parts) <= 4:
            raise InputError(
                f"a launch has a grid and a block, then a stream and bytes of shared memory, not {len(parts)} parts",
                next_step=f"write {self.name}[grid, block](…)",
            )
        grid, block, stream, shared = (*parts, None, 0)[:4] if len(parts) < 4 else parts
        return lambda *values: self.launch(grid, block, *values, stream=stream, shared_bytes=shared or 0)

    def launch(self, grid: Any, block: Any, *values: Any, stream: Any = None, shared_bytes: int = 0) -> None:
        """Queue one launch. Raises InputError for values that the kernel was not compiled for, NoBinary where nothing
        runs on the device, and DeviceError for what the driver refuses."""
        calling = self._calling()
        handle = stream_handle(stream)
        sizes = (*_shape(grid), *_shape(block))
        driver = bindings()
        buffer = packed(calling, values, handle)
        loaded = self.loaded(lambda: (sizes, values, shared_bytes))
        if shared_bytes:
            loaded.allow_shared(shared_bytes, current_ordinal())
        memory = (ctypes.c_char * max(1, len(buffer))).from_buffer(buffer or bytearray(1))
        size = ctypes.c_size_t(len(buffer))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(memory), _BUFFER_SIZE, ctypes.addressof(size), _END
        )
        call(driver.cuLaunchKernel, loaded.function, *sizes, shared_bytes, handle, 0, ctypes.addressof(extra))

    def loaded(self, first: Callable[[], tuple[Any, ...]] | None = None) -> LoadedKernel:
        """The code for this thread's device, loaded at its first use. ``first`` gives the launch to tune on."""
        use_primary_context()
        ordinal = current_ordinal()
        if (known := self._here.get(ordinal)) is not None:
            return known
        capability = _capability(ordinal)
        found = self._loaded.get(capability)
        if found is None:
            from hybridcc.runtime.loaded import LoadedKernel

            chosen, code = self.code(capability)
            if self.tune and first is not None and chosen.exact:
                from hybridcc.retuning import fastest

                code = self.bundle.cubin(chosen.arch, fastest(self.bundle, chosen.arch, *first()))
            found = self._loaded[capability] = LoadedKernel(code, self._entry(chosen.arch))
        self._here[ordinal] = found
        return found

    def code(self, capability: Capability) -> tuple[Choice, bytes]:
        """What a device of that compute capability gets: machine code, or PTX with a warning. Raises NoBinary."""
        chosen, _ = self.bundle.for_device(capability, BASELINE)
        if chosen.kind == "cubin":
            return chosen, self.bundle.cubin(chosen.arch, self.selections.get(chosen.arch, SELECTED))
        major, minor = capability
        warnings.warn(
            f"{self.name}: {self.bundle.folder} has no machine code for a device of capability {major}.{minor} "
            f"(it has {', '.join(self.bundle.architectures)}): the driver compiles the baseline's PTX for "
            f"{chosen.arch}; nothing was selected or measured there; build again with --arch sm_{major}{minor}",
            CompiledByDriver,
            stacklevel=5,
        )
        return chosen, self.bundle.ptx(chosen.arch).encode() + b"\0"

    def _entry(self, arch: str) -> str:
        """Kernels with debug information have a name of their own for each architecture."""
        return self.bundle.entry(arch).get("entry") or self._calling()["entry"]

    def _calling(self) -> Mapping[str, Any]:
        calling = self.bundle.manifest["kernel"].get("calling")
        if calling is None:
            raise InputError(
                "does not say how its kernel is called", where=str(self.bundle.folder), next_step="build it again"
            )
        return calling


@dataclass(frozen=True, slots=True)
class Selections:
    """What was selected for one bundle (by its ``identity``): variants by architecture."""

    bundle: str
    variants: Mapping[str, str]


def read_selections(path: Path) -> dict[str, Selections]:
    """By kernel. Raises InputError for a file that ``hybridcc tune`` did not write."""
    try:
        held = json.loads(path.read_bytes())["kernels"]
        return {
            name: Selections(own["bundle"], {arch: each["variant"] for arch, each in own["architectures"].items()})
            for name, own in held.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"holds no selections ({error})", where=str(path), next_step="write one with `hybridcc tune BUNDLE -o FILE`"
        ) from None


def _capability(ordinal: int) -> Capability:
    driver = bindings()
    device = call(driver.cuDeviceGet, ordinal)
    which = driver.CUdevice_attribute
    return (
        int(call(driver.cuDeviceGetAttribute, which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)),
        int(call(driver.cuDeviceGetAttribute, which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)),
    )


def _shape(value: Any) -> tuple[int, int, int]:
    sizes = (value,) if hasattr(value, "__index__") else tuple(value)
    if not 1 <= len(sizes) <= 3:
        raise InputError(f"a grid or block has one to three sizes, not {value!r}", next_step="give one to three sizes")
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z
