"""Photos with squares, and their boxes in data files."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from support.detectors import SIDE

CLASSES, ROWS = ("red", "green", "blue"), 3
Photos = tuple[Array, Array]


def photos(count: int, seed: int, classes: int = len(CLASSES)) -> Photos:
    """Returns photos with one or two squares, each in the color of its class, and their boxes."""
    rng = np.random.default_rng(seed)
    images = rng.uniform(0, 0.2, (count, SIDE, SIDE, 3)).astype(np.float32)
    boxes = np.zeros((count, ROWS, 5), np.float32)
    boxes[..., 0] = -1
    for k in range(count):
        for row in range(rng.integers(1, 3)):
            size = rng.integers(6, 14)
            y, x = rng.integers(0, SIDE - size, 2)
            number = rng.integers(classes)
            images[k, y : y + size, x : x + size] = np.eye(3)[number]
            boxes[k, row] = number, y / SIDE, x / SIDE, (y + size) / SIDE, (x + size) / SIDE
    return images, boxes


def saved(folder: Path, name: str, data: Photos, **record: Any) -> tuple[Path, Path]:
    """Writes inputs and boxes as raw files with their JSON; returns the paths."""
    paths = folder / f"{name}.input.bin", folder / f"{name}.output.bin"
    boxes = {"classes": list(CLASSES), "source": "voc", **record}
    for path, a in zip(paths, data, strict=True):
        path.write_bytes(a.tobytes())
        content = {
            "format": "odt-data",
            "version": 1,
            "samples": len(a),
            "tensors": [{"shape": a.shape[1:], "dtype": "float32"}],
            "classes": [],
            "sha256": "",
            "kind": "image",
            "preprocessing": [],
            "boxes": boxes,
        }
        Path(f"{path}.json").write_text(json.dumps(content))
    return paths
