"""The process that proves one task: a pickled Task on stdin, a pickled Attempt (or input error) on stdout."""

from __future__ import annotations

import pickle
import resource
import sys

from hybridcc.errors import HybridccError, InputError, MissingExtra
from hybridcc.passes.verify.proving import attempt_here


def main(memory_bytes: int) -> None:
    """Terms nest as deep as a kernel's expressions do, hence the recursion limit."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    sys.setrecursionlimit(20_000)
    task = pickle.load(sys.stdin.buffer)
    try:
        outcome: object = attempt_here(task)
    except MissingExtra as error:
        outcome = MissingExtra(error.what, next_step=error.next_step)
    except HybridccError as error:
        outcome = InputError(
            error.what, where=error.where, next_step=error.next_step
        )  # of a class that survives pickling
    sys.stdout.buffer.write(pickle.dumps(outcome))


if __name__ == "__main__":
    main(int(sys.argv[1]))
