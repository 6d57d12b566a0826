"""Pages of a data file that have been read do not stay in this process's memory."""

import sys
from pathlib import Path

import numpy as np
import pytest

from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet
from odt.kernels.rows.opdef import TensorSpec

SMAPS = Path("/proc/self/smaps")
ROWS, WIDTH = 64, 2**17
SPEC = TensorSpec((WIDTH,), np.dtype(np.float32))


def resident(path: Path) -> int:
    """Bytes of the file that are in this process's memory."""
    found, here = 0, False
    for line in SMAPS.read_text().splitlines():
        if "-" in line.split()[0]:
            here = line.endswith(str(path))
        elif here and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("picked", [False, True])
def test_a_file_read_from_end_to_end_is_hardly_in_memory(picked: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    wanted = np.random.default_rng(0).random((ROWS, WIDTH), np.float32)
    wanted.tofile(path)
    data = DataSet(open_columns(str(path), [SPEC], "input"))
    out = np.empty((2, WIDTH), np.float32)
    most = []
    for limit in (2**22, 2**30):
        data.limit_mapped(limit)
        seen = 0
        for at in range(0, ROWS, 2):
            samples = [at, at + 1] if picked else range(at, at + 2)
            data.read(samples, [out], [])
            assert (out == wanted[at : at + 2]).all()
            seen = max(seen, resident(path))
        most.append(seen)
    assert most[0] <= 2**22 + 2 * out.nbytes
    assert most[1] > 2 * most[0]  # all of the file, unless the system needs its memory
