"""A copy of the state of training, to which weights and optimizer can return."""

import weakref
from typing import Any

import numpy as np

from odt.core.runtime.arena import copy_arrays, overwrite
from odt.core.runtime.parameters import Groups, Parameters
from odt.kernels.rows.opdef import Array

SMALL = 2**20  # bytes of a copy in memory, and of a part of a larger one that is read at once


class Snapshot:
    """A copy of weights, optimizer state, moving averages, ranges and the number of updates.

    A copy that is not small is an unnamed temporary file, which takes no memory of the process.
    Where none can be written, it is in memory.

    Attributes:
        step: number of updates at the time of the copy.
    """

    def __init__(self, parameters: Parameters) -> None:
        """Copies the current state."""
        self._parameters, self.step = parameters, parameters.step
        self._state = {
            (role, i): a for role, group in parameters.groups.items() for i, a in group.items()
        }
        self._copies: dict[tuple[str, int], Array] = {}
        self._file: Any = None
        if sum(a.nbytes for a in self._state.values()) <= SMALL:
            self._copies = copy_arrays(self._state)
            return
        import tempfile

        try:
            self._file = tempfile.TemporaryFile(prefix="odt-state-")  # noqa: SIM115  # kept
            weakref.finalize(self, self._file.close)
            self.keep()
        except OSError:
            self._file = None
            self._copies = copy_arrays(self._state)

    def keep(self) -> None:
        """Copies the current state over the former copy."""
        self.step = self._parameters.step
        for key, copy in self._copies.items():
            np.copyto(copy, self._state[key])
        if self._file is not None:
            self._file.seek(0)
            for a in self._state.values():
                self._file.write(_bytes(a).data)
            self._file.flush()

    def restore(self) -> None:
        """Returns weights, optimizer state and the number of updates to the copy.

        Only memory that differs is written, so that zeros of optimizer state take none.
        """
        self._parameters.step = self.step
        for key, copy in self._copies.items():
            overwrite(self._state[key], copy)
        if self._file is not None:
            self._file.seek(0)
            part = np.empty(SMALL, np.uint8)
            for a in map(_bytes, self._state.values()):
                for at in range(0, a.size, SMALL):
                    here = a[at : at + SMALL]
                    copy = part[: here.size]
                    self._file.readinto(copy.data)
                    overwrite(here, copy)

    def groups(self) -> Groups:
        """The copy by role and tensor, as `Parameters.groups`."""
        groups: dict[str, dict[int, Array]] = {}
        at = 0
        for (role, i), a in self._state.items():
            copy = self._copies.get((role, i))
            if copy is None:
                copy = np.memmap(self._file, a.dtype, "r", at, a.shape) if a.size else a
            groups.setdefault(role, {})[i] = copy
            at += a.nbytes
        return groups


def _bytes(a: Array) -> Array:
    return a.reshape(-1, copy=False).view(np.uint8)
