"""The first call of a signature and launch shape: a variant that was selected before is taken from the store, or tuning
begins in the background if HYBRIDCC_TUNE asks for it (runtime/dispatcher.py).

A kernel that nothing was ever decided for costs one look into the store in its life, and no compilation.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hybridcc.attempt import attempt
from hybridcc.records import Failure
from hybridcc.runtime import device as devices
from hybridcc.runtime import store
from hybridcc.runtime.driver import current_ordinal, is_capturing, stream_handle

if TYPE_CHECKING:
    from hybridcc.runtime.dispatcher import Configured, Dispatcher

MOST = 256
"""Signatures and shapes of one kernel that are looked up; one with more of them is no candidate for looking."""

_log = logging.getLogger("hybridcc")


class FirstCalls:
    """Of one kernel. ``over`` says that there is nothing to look for any more."""

    def __init__(self, dispatcher: Dispatcher, background: bool) -> None:
        self._dispatcher = dispatcher
        self._background = background
        self._seen: set[tuple[Any, ...]] = set()
        self._lock = threading.Lock()
        self.over = False

    def look(self, configured: Configured, args: Sequence[Any]) -> bool:
        """Whether a variant was selected just now, for this call too. Never raises: the baseline can always run."""
        failures: list[Failure] = []
        found = attempt("first call", failures, lambda: self._look(configured, args, failures), False)
        self.over = self.over or bool(failures and not self._seen)  # the store cannot be used
        for failure in failures:
            _log.info("%s: %s: %s", self._dispatcher.__name__, failure.stage, failure.message)
        return found

    def _look(self, configured: Configured, args: Sequence[Any], failures: list[Failure]) -> bool:
        dispatcher = self._dispatcher
        if not self._background and not self._seen and not store.has_kernel(dispatcher.__name__):
            self.over = True
            return False
        types, ordinal = dispatcher.types_of(args), current_ordinal()
        if not self._is_first((ordinal, types, configured.griddim, configured.blockdim, configured.sharedmem)):
            return False
        if any((each.types, each.ordinal) == (types, ordinal) for each in dispatcher.selected):
            return False
        if is_capturing(stream_handle(configured.stream)):  # nothing may be copied or waited for: the next call
            self._seen.discard((ordinal, types, configured.griddim, configured.blockdim, configured.sharedmem))
            return False
        return self._decide(configured, args, types, failures)

    def _is_first(self, key: tuple[Any, ...]) -> bool:
        """For one thread of all that call at once; the others go to the baseline meanwhile."""
        with self._lock:
            if key in self._seen:
                return False
            self._seen.add(key)
            self.over = len(self._seen) >= MOST
            return True

    def _decide(
        self, configured: Configured, args: Sequence[Any], types: tuple[Any, ...], failures: list[Failure]
    ) -> bool:
        from hybridcc import background, decisions
        from hybridcc.optimizing import arch_for, prepare, rewriter_for, switch
        from hybridcc.pipeline import Options
        from hybridcc.runtime.launch_class import launch_class

        device, options = devices.current(), Options()
        kernel = self._dispatcher.compile_for(types, arch_for(device))
        shape = launch_class(kernel.arguments, args, configured.griddim, configured.blockdim, configured.sharedmem)
        key = store.key_of(decisions.situation(kernel, device, shape, options))
        by_policy = (d for d in store.for_situation(key) if d.identity.get("accept") == options.accept)
        found = next(by_policy, None)
        if found is None:
            if self._background and (spec := rewriter_for(self._dispatcher)) != "none":
                call, _ = prepare(configured, args, device, failures)
                background.start(configured, call, types, spec)
            return False
        call = decisions.Call(kernel, None, (), device, shape)
        if decisions.needs_check(found, device):
            call, _ = prepare(configured, args, device, failures)
            if not decisions.still_good(found, call, options):
                return False
        return found.cubin is not None and switch(configured, call, types, found.cubin)
