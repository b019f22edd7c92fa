"""Exact block counts from the executor: no GPU, and slow for big launches."""

from __future__ import annotations

from hybridcc.passes.analysis import cfg as cfg_module
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.profile.profile import Profile, key_of, launch_words, starts_of
from hybridcc.passes.verify.launch import Launch, copy


def executed(kernel: Kernel, launch: Launch) -> Profile:
    """The launch's own counts. Raises ExecutionError for what the executor refuses, InputError for bad arguments."""
    from hybridcc.passes.arguments import flatten
    from hybridcc.passes.execute import execute
    from hybridcc.passes.regions.find import entry_of
    from hybridcc.ptx import parse

    module = parse(kernel.ptx, kernel.name)
    cfg = cfg_module.build(entry_of(module, kernel.entry), module)
    private = copy(launch)
    values = flatten(kernel.arguments, private.values) if kernel.arguments else list(private.values)
    result = execute(
        kernel.ptx, kernel.entry, launch.grid, launch.block, values, launch.shared_bytes, detect_races=False
    )
    return Profile(
        "executed",
        key_of(kernel),
        kernel.arch,
        tuple(float(c) for c in result.counts_by_index),
        starts_of(cfg),
        launch_words(launch),
        launch.threads,
    )
