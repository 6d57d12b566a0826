"""Gradient clipping by the global norm or by value."""

import math
from collections.abc import Collection

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import TILE, Array


@dataclass(frozen=True, slots=True)
class Clipping:
    """Limits of the gradients of an update; 0 for none.

    Attributes:
        norm: largest norm of all gradients together: larger gradients are scaled by norm / ‖g‖, as
            tf.clip_by_global_norm and torch.nn.utils.clip_grad_norm_ do (Pascanu et al. 2013).
        value: largest magnitude of each value.
    """

    norm: float = 0.0
    value: float = 0.0

    def apply(self, gradients: Collection[Array]) -> None:
        """Clips gradients in place."""
        if self.value:
            for g in gradients:
                limit = min(self.value, float(np.finfo(g.dtype).max))  # a cast would warn
                np.clip(g, -limit, limit, out=g)
        if self.norm:
            norm = math.sqrt(math.fsum(map(_sum_of_squares, gradients)))
            if norm > self.norm:
                for g in gradients:
                    np.multiply(g, self.norm / norm, out=g)


def _sum_of_squares(a: Array) -> float:
    """Returns Σ a², summed over tiles in float64."""
    flat = a.reshape(-1, copy=False)
    tiles = (flat[at : at + TILE] for at in range(0, flat.size, TILE))
    return math.fsum(float(np.vdot(tile, tile)) for tile in tiles)
