"""A kernel from a fatbin, launched by CuPy, with no hybridcc in the process.

hybridcc build examples/conv1d.py -o out --format fatbin
python examples/loading/with_cupy.py out/conv1d
"""

import json
import sys
from pathlib import Path

import cupy as cp
import numpy as np


def vector(array):
    """The seven parameters that a one-dimensional array of Numba is (manifest.json, "calling")."""
    zero = np.uint64(0)
    size, itemsize = np.int64(array.size), np.int64(array.itemsize)
    return zero, zero, size, itemsize, np.uint64(array.data.ptr), size, itemsize


def main(folder):
    entry = json.loads((folder / "manifest.json").read_text())["kernel"]["calling"]["entry"]
    kernel = cp.RawModule(path=str(folder / f"{folder.name}.fatbin")).get_function(entry)
    x, w, y = cp.arange(4126, dtype="f4") % 7, cp.arange(31, dtype="f4") % 3, cp.zeros(4096, "f4")
    kernel((y.size // 256,), (256,), (*vector(x), *vector(w), *vector(y)))
    wanted = np.correlate(x.get(), w.get(), "valid")
    assert np.array_equal(y.get(), wanted)
    print(f"{y.size} sums are right")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
