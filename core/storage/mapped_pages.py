"""The pages of a mapped data file: read, counted, and given back to the system.

As long as they are mapped they count as this process's memory. Given back they stay in the
system's cache, where they are found again, at the cost of a page fault.
"""

import mmap
from typing import Any

from odt.kernels.opdef import Array

AROUND = 2**16  # bytes that the system maps around a byte that is read
KEPT = 2**25  # bytes that may be mapped of a file of small samples: faults would show
KEPT_OF_LARGE = 2**22  # and of one of large samples


class Pages:
    """Of one file.

    Attributes:
        kept: bytes that may be mapped before all are given back.
    """

    def __init__(self, rows: Array) -> None:
        """Begins.

        Args:
            rows: the file, mapped; of what is no map, nothing is given back.
        """
        found: Any = rows
        while found is not None and not isinstance(found, mmap.mmap):
            found = getattr(found, "base", None)
        self._map = found if hasattr(mmap, "MADV_DONTNEED") else None
        self._sample = max(rows[:1].nbytes, AROUND)
        self._read = 0
        self.kept = KEPT if self._sample == AROUND else KEPT_OF_LARGE

    def count(self, samples: int) -> None:
        """So many samples have been read."""
        self._read += samples * self._sample
        if self._map is not None and self._read > self.kept:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._read = 0
