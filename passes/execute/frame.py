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
            self.registers[name] = value
            if self.partial:
                self.partial.pop(name, None)
            return
        old = self.registers.get(name)
        if old is None:
            old = np.zeros(self.count, np.asarray(value).dtype)
            self.registers[name] = old
            self.partial[name] = np.zeros(self.count, bool)
        elif not old.ndim:
            old = np.full(self.count, old)
            self.registers[name] = old
        else:
            old = self._own(name, old)
        old[lanes] = value
        mask = self.partial.get(name)
        if mask is not None:
            mask[lanes] = True
            if mask.all():
                del self.partial[name]

    def _own(self, name: str, array: Array) -> Array:
        """The register's array for writing in place: a mov copies no data, so another may hold the same or a view."""
        root = array.base
        for other, value in self.registers.items():
            if other == name:
                continue
            if value is array or value.base is array or (root is not None and (value is root or value.base is root)):
                array = array.copy()
                self.registers[name] = array
                break
        if not array.flags.writeable:
            array = array.copy()
            self.registers[name] = array
        return array

    def keep(self, lanes: Array) -> None:
        """Drops every other lane."""
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
