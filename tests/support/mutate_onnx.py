"""Reads and lowers mutations of an ONNX file: python mutate_onnx.py FILE COUNT FOLDER.

Exits with 1 if any raises another error than OdtError, takes too long or too much memory.
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.errors import OdtError

SECONDS = 0.5  # of the processor, for one mutation
MEMORY = 50 << 20  # beside the file
TAGS = (8, 10, 16, 18, 24, 26, 32, 34, 40, 42, 58, 64, 66)  # of fields, where structure is


def main() -> None:
    path, count, folder = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    data = np.fromfile(path, np.uint8)
    rng = np.random.default_rng(len(data))
    structure = np.ones(len(data), bool)
    for offset, size in read_model(path).spans:
        structure[offset : offset + size] = False
    places = np.flatnonzero(np.isin(data, TAGS) & structure)
    target = folder / "mutation.onnx"
    _read(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest, errors = 0.0, 0
    for k in range(count):
        mutation = data.copy()
        if k % 4 == 0:
            at = rng.integers(len(data), size=rng.integers(1, 4))
        else:
            at = rng.choice(places, 2) + rng.integers(0, 3, 2)
        mutation[np.minimum(at, len(data) - 1)] = rng.choice(
            [0, 1, 2, 3, 7, 127, 128, 255], len(at)
        )
        if k % 10 == 9:
            mutation = mutation[: rng.integers(1, len(data))]
        mutation.tofile(target)
        start = time.process_time()
        errors += not _read(target)
        slowest = max(slowest, time.process_time() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    print(
        f"{path.name}: {count} mutations, {errors} errors, {slowest:.2f} s, {grown >> 20} MB more"
    )
    sys.exit(slowest > SECONDS or grown > MEMORY + len(data))


def _read(path: Path) -> bool:
    """Whether a file can be read and lowered."""
    try:
        lower_model(read_model(path), outputs="file").graphs.unsupported  # noqa: B018
    except OdtError:
        return False
    return True


if __name__ == "__main__":
    main()
