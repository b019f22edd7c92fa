"""The racing process as it is, on the simulated GPU: ``python -m tests.simulated.worker``."""

from __future__ import annotations

import os
import sys

from hybridcc.errors import DeviceError
from hybridcc.runtime import clocks, driver, race_arena, race_rounds, race_timing, race_worker
from tests.simulated.gpu import Simulated, VirtualTime

COMMAND = (sys.executable, "-m", "tests.simulated.worker")


def main() -> None:
    gpu = Simulated(int(os.environ.get("HYBRIDCC_SIMULATED_MEMORY", 1 << 32)))
    driver.bindings.cache_clear()
    import cuda.bindings

    cuda.bindings.driver = gpu  # type: ignore[assignment]
    sys.modules["cuda.bindings.driver"] = gpu  # type: ignore[assignment]
    race_timing.time = race_rounds.time = VirtualTime(gpu)  # type: ignore[assignment]
    clocks.open_clocks = lambda uuid: None
    try:
        race_worker.serve()
    except DeviceError as error:
        race_arena.tell("failed", reason=error.what)
        sys.exit(3)


if __name__ == "__main__":
    main()
