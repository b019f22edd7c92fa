"""The child of hybridcc/background.py as it is, but for the race and the verification, which need a GPU and minutes.

What happens is read from the environment: SPEED, the ratio that every variant is measured at; DIES, how the child ends
itself instead ("kill", "fault"); STARTED, a file that a line is added to when a race begins; GO, one that it waits for.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hybridcc import background, judging, tuning
from hybridcc.passes.verdict import Proved
from hybridcc.passes.verify.testing import Examination
from hybridcc.runtime.race import Race
from hybridcc.runtime.race_statistics import Measurement

RATIO, DIES, STARTED, GO = "SPEED", "DIES", "STARTED", "GO"


def race(baseline, variants, arguments, launch, device, **options):
    with open(os.environ[STARTED], "a") as file:
        file.write(f"{' '.join(variant.name for variant in variants)}\n")
    match os.environ.get(DIES):
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fault":
            raise MemoryError("none left")
    while not Path(os.environ[GO]).exists():
        time.sleep(0.02)
    ratio = float(os.environ[RATIO])
    kind = "faster" if ratio > 1 else "same"
    each = Measurement(kind, ratio, (ratio - 0.01, ratio + 0.01), 0.99, 16, {}, 10.0, 10.0 / ratio)
    return Race({variant.name: each for variant in variants}, None, (), {"l2": "cold"})


def verify(kernel, name, text, rewritten, work):
    return Examination(Proved('{"seconds": 0.0}'), 1, (), (), "example")


def main() -> None:
    tuning.race = race
    judging._verify = verify
    background.main()


if __name__ == "__main__":
    main()
