"""What is known about the GPUs of this machine; asking costs nothing and needs none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hybridcc.errors import DeviceError, NoDevice
from hybridcc.runtime.choice import Capability
from hybridcc.runtime.driver import NEXT_WITHOUT_DEVICE, bindings, call, current_ordinal


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU. ``driver`` is the newest CUDA that its driver speaks ("13.0"); ``uuid`` tells equal GPUs apart."""

    ordinal: int
    name: str
    arch: str
    driver: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    uuid: str

    @property
    def capability(self) -> Capability:
        return int(self.arch[3:-1]), int(self.arch[-1])


def current() -> Device:
    """The GPU of this thread's context, else the first. Raises NoDevice."""
    return device(current_ordinal())


def available() -> Device | None:
    """The GPU that a launch would use, or None."""
    try:
        return current()
    except NoDevice:
        return None


def why_none() -> str:
    """Why no GPU can be used; empty where one can."""
    try:
        current()
    except NoDevice as error:
        return error.what
    return ""


@cache
def count() -> int:
    """How many GPUs this process sees. Raises NoDevice."""
    return int(call(bindings().cuDeviceGetCount))


@cache
def device(ordinal: int) -> Device:
    """Raises NoDevice when there is no GPU of that number."""
    driver = bindings()
    try:
        handle = call(driver.cuDeviceGet, ordinal)
    except DeviceError as error:
        raise NoDevice(f"no GPU number {ordinal}: {error.what}", next_step=NEXT_WITHOUT_DEVICE) from error
    attribute = driver.CUdevice_attribute

    def ask(which: object) -> int:
        return int(call(driver.cuDeviceGetAttribute, which, handle))

    major = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    version = int(call(driver.cuDriverGetVersion))
    return Device(
        ordinal=ordinal,
        name=call(driver.cuDeviceGetName, 256, handle).split(b"\0")[0].decode(),
        arch=f"sm_{major}{minor}",
        driver=f"{version // 1000}.{version % 1000 // 10}",
        multiprocessors=ask(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        memory_bytes=int(call(driver.cuDeviceTotalMem, handle)),
        l2_bytes=ask(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        uuid=bytes(call(driver.cuDeviceGetUuid, handle).bytes)[:16].hex(),
    )
