"""What a race hands to its child process: a folder with bytes and one JSON file, nothing that needs unpickling."""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hybridcc.passes.arguments import PTX_NUMPY, flatten
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch, Shape, buffer_of, buffers
from hybridcc.ptx.targets import WARP_SIZE

JOB = "job.json"
MOST_BLOCKS_X = (1 << 31) - 1
"""CUDA C++ Programming Guide 13.0, "Technical Specifications": the largest x-dimension of a grid."""

ALIGNMENT = 256
"""Of what the driver allocates, bytes."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One cubin in a race; the baseline is called ``baseline``. race_entrants makes all of it from PTX.

    ``twins`` are the same PTX assembled with -O3 and -O0, both with -fmad=false, to be compared with one another, and
    ``untwinned`` says why there are none; ``counted`` is a clone that counts how often its guards hold. ``free`` is one
    that need not leave what the baseline leaves: that is told, and it races on. ``parameters`` are its own, where it
    does not take the baseline's.
    """

    name: str
    cubin: bytes
    entry: str
    twins: tuple[bytes, bytes] | None = None
    counted: bytes = b""
    untwinned: str = "not assembled so"
    free: bool = False
    parameters: Parameters | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """The parameter at ``offset`` bytes is the address ``displacement`` bytes into buffer ``buffer``."""

    offset: int
    buffer: int
    displacement: int


@dataclass(frozen=True, slots=True)
class Parameters:
    """One launch's parameter buffer with its pointers still open; ``offsets`` is where each parameter begins."""

    data: bytes
    offsets: tuple[int, ...]
    pointers: tuple[Pointer, ...]

    def filled(self, addresses: Sequence[int]) -> bytes:
        """The buffer for buffers at these addresses."""
        data = bytearray(self.data)
        for pointer in self.pointers:
            struct.pack_into("=Q", data, pointer.offset, addresses[pointer.buffer] + pointer.displacement)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Job:
    """``sizes`` and ``alignments`` are of the buffers, in bytes: the child gives a buffer the same address modulo
    ALIGNMENT as the caller's. ``timed`` False only compares."""

    contenders: tuple[tuple[str, str], ...]
    """(name, entry); the cubin is the file ``<name>.cubin``."""
    parameters: Parameters
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    budget_s: float
    seed: int
    device_uuid: str
    poison: bool = True
    timed: bool = True
    compared: int = 10
    """Launches of a variant that each check compares at least."""
    twins: tuple[str, ...] = ()
    """Contenders with ``<name>.O3.cubin`` and ``<name>.O0.cubin``, assembled with -fmad=false."""
    counted: tuple[str, ...] = ()
    """Contenders with ``<name>.counted.cubin``, which counts how often its guards hold."""
    shapes: tuple[tuple[Shape, Shape], ...] = ()
    """(grid, block) besides the caller's at which memory is compared, where the baseline allows it."""
    scrub: bool = True
    """Whether shared memory is filled before compared launches."""
    free: tuple[str, ...] = ()
    """Contenders that race on whatever they leave."""
    own: Mapping[str, Parameters] = field(default_factory=dict)
    """Parameters of contenders that do not take ``parameters``."""


def job_of(
    contenders: Sequence[Contender],
    arguments: Sequence[Argument],
    launch: Launch,
    device_uuid: str,
    *,
    budget_s: float = 0.0,
    timed: bool = True,
    alignments: Sequence[int] = (),
    compared: int = 10,
) -> Job:
    """The baseline comes first. Raises InputError when the values do not fit the arguments."""
    return Job(
        contenders=tuple((c.name, c.entry) for c in contenders),
        parameters=parameters_of(arguments, launch),
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        sizes=tuple(root.nbytes for root in buffers(launch)),
        alignments=tuple(alignments) or alignments_of(launch),
        budget_s=budget_s,
        seed=0,
        device_uuid=device_uuid,
        timed=timed,
        compared=compared,
        twins=tuple(c.name for c in contenders if c.twins is not None),
        counted=tuple(c.name for c in contenders if c.counted),
        shapes=other_shapes(launch),
        free=tuple(c.name for c in contenders if c.free),
        own={c.name: c.parameters for c in contenders if c.parameters is not None},
    )


def parameters_of(arguments: Sequence[Argument], launch: Launch) -> Parameters:
    """Raises InputError when the values do not fit the arguments."""
    types = [PTX_NUMPY[each.ptx_type] for argument in arguments for each in argument.fields]
    flat = flatten(arguments, launch.values)
    values = [
        value if isinstance(value, np.ndarray) else np.asarray(value).astype(type_)[()]
        for type_, value in zip(types, flat, strict=True)
    ]
    return packed(values, launch)


def packed(values: Sequence[object], launch: Launch) -> Parameters:
    """Parameters in this order, each aligned to its size: arrays (of the launch's memory) by address, NumPy scalars as
    they are."""
    roots = {id(root): index for index, root in enumerate(buffers(launch))}
    data = bytearray()
    offsets: list[int] = []
    pointers: list[Pointer] = []
    for value in values:
        piece = b"\0" * 8 if isinstance(value, np.ndarray) else np.asarray(value).tobytes()
        data += b"\0" * (-len(data) % len(piece))
        offsets.append(len(data))
        if isinstance(value, np.ndarray):
            root = buffer_of(value)
            pointers.append(Pointer(len(data), roots[id(root)], address_of(value) - address_of(root)))
        data += piece
    return Parameters(bytes(data), tuple(offsets), tuple(pointers))


@contextmanager
def folder_for(launch: Launch) -> Iterator[Path]:
    """A folder for a job, in shared memory where it fits: the arguments may be gigabytes."""
    needed = sum(root.nbytes for root in buffers(launch))
    shared = Path("/dev/shm")
    place = str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 2 * needed else None
    with tempfile.TemporaryDirectory(prefix="hybridcc-race-", dir=place) as folder:
        yield Path(folder)


def write(folder: Path, job: Job, contenders: Sequence[Contender], launch: Launch) -> None:
    """Everything the child needs, into ``folder``."""
    for contender in contenders:
        (folder / f"{contender.name}.cubin").write_bytes(contender.cubin)
        if contender.twins is not None:
            for level, code in zip(("O3", "O0"), contender.twins, strict=True):
                (folder / f"{contender.name}.{level}.cubin").write_bytes(code)
        if contender.counted:
            (folder / f"{contender.name}.counted.cubin").write_bytes(contender.counted)
    for index, root in enumerate(buffers(launch)):
        flat = root if root.flags.c_contiguous else root.T
        np.ascontiguousarray(flat).tofile(folder / f"buffer{index}.bin")
    write_job(folder, job)


def write_job(folder: Path, job: Job) -> None:
    data = asdict(job)
    for each in (data["parameters"], *data["own"].values()):
        each["data"] = each["data"].hex()
    (folder / JOB).write_text(json.dumps(data))


def read(folder: Path) -> Job:
    data: dict[str, Any] = json.loads((folder / JOB).read_text())
    parameters = _read_parameters(data.pop("parameters"))
    own = {name: _read_parameters(given) for name, given in data.pop("own").items()}
    tuples = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    tuples["contenders"] = tuple((name, entry) for name, entry in data["contenders"])
    tuples["shapes"] = tuple((tuple(grid), tuple(block)) for grid, block in data["shapes"])
    return Job(parameters=parameters, own=own, **{**data, **tuples})


def _read_parameters(given: Mapping[str, Any]) -> Parameters:
    pointers = tuple(Pointer(**each) for each in given["pointers"])
    return Parameters(bytes.fromhex(given["data"]), tuple(given["offsets"]), pointers)


def other_shapes(launch: Launch) -> tuple[tuple[Shape, Shape], ...]:
    """As many threads along x in blocks half as wide; a block that cannot be halved gets a grid of one block more."""
    (gx, gy, gz), (bx, by, bz) = launch.grid, launch.block
    if bx % 2 == 0 and bx * by * bz > WARP_SIZE and 2 * gx <= MOST_BLOCKS_X:
        return (((2 * gx, gy, gz), (bx // 2, by, bz)),)
    return (((gx + 1, gy, gz), launch.block),) if gx < MOST_BLOCKS_X else ()


def alignments_of(launch: Launch) -> tuple[int, ...]:
    """Of each buffer's own address on the host."""
    return tuple(address_of(root) % ALIGNMENT for root in buffers(launch))


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
