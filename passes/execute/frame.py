"""The registers of the threads that run one function: one array lane per thread.

A register that holds the same value in every lane may be a NumPy scalar: arithmetic on it then costs nothing per lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridcc.passes.execute.memory import Fault
from hybridcc.passes.execute.numpy_floats import UNSIGNED

Array = Any
Lanes = Any
"""None for all lanes of a frame, else an array of their indices."""


class Frame:
    """``slots`` are the threads' places in the launch: block times padded block size, plus the thread's number."""

    def __init__(self, launch: Any, program: Any, slots: Array) -> None:
        self.launch = launch
        self.program = program
        self.slots = slots
        self.count = len(slots)
        self.registers: dict[str, Array] = {}
        self.partial: dict[str, Array] = {}
        """Registers that only some lanes have written, with a mask of those."""
        self.own: dict[str, Array] = {}
        """Registers whose array no other register shares, so that some lanes may be written in place."""
        self.own_ids: set[int] = set()
        self.parameters: dict[str, Array] = {}
        """.param variables of calls: bytes, one row per lane."""
        self.carry: Array = np.bool_(False)

    # --- registers --------------------------------------------------------------------------------------

    def get(self, name: str, lanes: Lanes) -> Array:
        value = self.registers.get(name)
        if value is None:
            raise Fault("UNWRITTEN_REGISTER", f"{name} is read before it is written", 0)
        if self.partial:
            mask = self.partial.get(name)
            if mask is not None:
                chosen = mask if lanes is None else mask[lanes]
                if not chosen.all():
                    which = int(np.flatnonzero(~chosen)[0])
                    raise Fault("UNWRITTEN_REGISTER", f"{name} is read before it is written", which)
        if lanes is None or not value.ndim:
            return value
        return value[lanes]

    def set(self, name: str, value: Array, lanes: Lanes) -> None:
        if lanes is None:
            self._set_all(name, value)
            return
        mine = self.own.get(name)
        if mine is None:
            mine = self._make_own(name, np.asarray(value).dtype)
        mine[lanes] = value
        if self.partial:
            mask = self.partial.get(name)
            if mask is not None:
                mask[lanes] = True
                if mask.all():
                    del self.partial[name]

    def _set_all(self, name: str, value: Array) -> None:
        if self.own:
            # what is written in place must not be reachable under another name: mov copies no data
            if id(value) in self.own_ids or id(value.base) in self.own_ids:
                value = value.copy()
            old = self.own.pop(name, None)
            if old is not None:
                self.own_ids.discard(id(old))
        self.registers[name] = value
        if self.partial:
            self.partial.pop(name, None)

    def _make_own(self, name: str, dtype: Any) -> Array:
        """An array for this register alone, to write some lanes of."""
        old = self.registers.get(name)
        if old is None:
            mine = np.zeros(self.count, dtype)
            self.partial[name] = np.zeros(self.count, bool)
        else:
            mine = np.array(np.broadcast_to(old, self.count))
        self.registers[name] = mine
        self.own[name] = mine
        self.own_ids.add(id(mine))
        return mine

    def keep(self, lanes: Array) -> None:
        """Drops every other lane."""
        self.own.clear()
        self.own_ids.clear()
        for name, value in self.registers.items():
            if value.ndim:
                self.registers[name] = value[lanes]
        self.partial = {name: mask[lanes] for name, mask in self.partial.items()}
        self.partial = {name: mask for name, mask in self.partial.items() if not mask.all()}
        self.parameters = {n: (v[lanes] if v.ndim == 2 else v) for n, v in self.parameters.items()}
        if np.ndim(self.carry):
            self.carry = self.carry[lanes]
        self.slots = self.slots[lanes]
        self.count = len(self.slots)

    # --- who ---------------------------------------------------------------------------------------------

    def places(self, lanes: Lanes) -> Array:
        return self.slots if lanes is None else self.slots[lanes]

    def size(self, lanes: Lanes) -> int:
        return self.count if lanes is None else len(lanes)


def as_width(value: Array, have: int, want: int, signed: bool) -> Array:
    """A value of ``have`` bits as a register of ``want`` bits holds it."""
    if have == want:
        return value
    if have > want:
        return value.astype(UNSIGNED[want])
    if signed:
        from hybridcc.passes.execute.numpy_floats import SIGNED

        return value.view(SIGNED[have]).astype(SIGNED[want]).view(UNSIGNED[want])
    return value.astype(UNSIGNED[want])
