"""Releases pages of mapped data files, so that they do not fill memory.

Mapped pages count as memory of the process. Released pages (madvise) stay in the system's page
cache; reading them again costs a page fault.
"""

import mmap
from typing import Any

from odt.kernels.rows.opdef import Array

AROUND = 2**16  # bytes that the system maps around a byte that is read
FOLIO = 2**21  # bytes that Linux may map around a sample: a large folio of the page cache
DATA_PAGES = 2**20  # bytes of each data file that may be mapped at a time, within a budget
MAX_MAPPED = 2**25  # bytes, for small samples, whose page faults would cost time
MAX_MAPPED_OF_LARGE = 2**22  # bytes, for large samples


class Pages:
    """The pages of one file.

    Attributes:
        max_mapped: bytes that may be mapped before all pages are released.
    """

    def __init__(self, rows: Array) -> None:
        """Starts counting.

        Args:
            rows: an array of a mapped file; the memory of other arrays is never released.
        """
        base: Any = rows
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        self._map = base if hasattr(mmap, "MADV_DONTNEED") else None
        self._sample = max(rows[:1].nbytes, AROUND)
        self._read = 0
        self.max_mapped = MAX_MAPPED if self._sample == AROUND else MAX_MAPPED_OF_LARGE

    def mapped_nbytes(self, *, in_order: bool) -> int:
        """Returns the bytes that are mapped before all pages are released, at most.

        Args:
            in_order: whether samples are read in the order of the file.
        """
        if in_order:
            return self.max_mapped
        samples = self.max_mapped // self._sample + 1
        return samples * (self._sample + FOLIO)

    def count(self, samples: int) -> None:
        """Counts samples that were read, and releases pages when `max_mapped` is exceeded."""
        self._read += samples * self._sample
        if self._map is not None and self._read > self.max_mapped:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._read = 0
