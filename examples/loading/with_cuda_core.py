"""A kernel from a fatbin, launched by cuda.core on arrays of CuPy, Numba and PyTorch, with no hybridcc in the process.

hybridcc build examples/conv1d.py -o out --format fatbin
python examples/loading/with_cuda_core.py out/conv1d
"""

import json
import sys
from pathlib import Path

import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, launch


def vector(array):
    """The seven parameters that a one-dimensional array of Numba is (manifest.json, "calling")."""
    interface = array.__cuda_array_interface__
    (count,), itemsize = interface["shape"], np.dtype(interface["typestr"]).itemsize
    return 0, 0, count, itemsize, interface["data"][0], count, itemsize


def arrays(library):
    """x, w and y of whole numbers in device memory, and a function that brings one back."""
    x, w, y = (np.arange(4126) % 7).astype("f4"), (np.arange(31) % 3).astype("f4"), np.zeros(4096, "f4")
    match library:
        case "cupy":
            import cupy

            return [cupy.asarray(each) for each in (x, w, y)], cupy.asnumpy
        case "numba":
            from numba import cuda

            return [cuda.to_device(each) for each in (x, w, y)], lambda array: array.copy_to_host()
        case _:
            import torch

            return [torch.from_numpy(each).cuda() for each in (x, w, y)], lambda array: array.cpu().numpy()


def main(folder):
    device = Device()
    device.set_current()
    stream = device.default_stream
    entry = json.loads((folder / "manifest.json").read_text())["kernel"]["calling"]["entry"]
    kernel = ObjectCode.from_fatbin(str(folder / f"{folder.name}.fatbin")).get_kernel(entry)
    for library in ("cupy", "numba", "torch"):
        try:
            (x, w, y), to_host = arrays(library)
        except ImportError:
            print(f"{library} is not installed")
            continue
        launch(stream, LaunchConfig(grid=y.shape[0] // 256, block=256), kernel, *vector(x), *vector(w), *vector(y))
        stream.sync()
        assert np.array_equal(to_host(y), np.correlate(to_host(x), to_host(w), "valid"))
        print(f"{library}: {y.shape[0]} sums are right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
