"""Blocks of an image that are moved."""

from typing import Any

import numpy as np


def blocks(block: tuple[int, ...], *edges: tuple[int, int]) -> dict[str, Any]:
    return {"block": np.array(block, np.int32), "edges": np.array(edges, np.int32)}


NONE = (0, 0)
