"""Ranges of quantized activations that follow what training sees.

Each step widens a range to the smallest and the largest value of its batch, and narrows it slowly:

    least ← smallest of the batch                              if that is smaller
    least ← least + RATE (smallest of the batch − least)       otherwise; most likewise

Values that a range cuts off have no gradient, so that a range that grew slowly would slow down
training. The first step sets ranges that are only estimated, since their weights were equalized, to
those of its batch.

The new range is used from the next step on, so that a step computes the same for every number of
workers and micro-batches. A range contains 0. If it replaces a fused activation such as RELU6, it
stays within the limits of that activation.

Source: Jacob et al., *Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference* (2018), section 3.1, whose ranges also grow slowly; RATE is
PyTorch's averaging constant.
"""

from collections.abc import Collection, Mapping

import numpy as np

from odt.core.model.graph import Graph, ranges
from odt.kernels.geometry.quantize import SMALLEST, fake_quant_numbers
from odt.kernels.rows.opdef import Array

RATE = 0.01
OUTWARDS = np.array([-1, 1])  # directions in which ends of a range move when it widens
LEVELS = 255  # steps of int8 and uint8


class ActivationRanges:
    """Ranges of activations, and the numbers that FAKE_QUANT reads, by tensor of these numbers.

    Attributes:
        ends: (2,) float64, smallest and largest value of each range that moves.
        numbers: (4,) float32, 1 / scale, scale, and the limits of the integers, of these ranges.
        clipped: fraction of the values of the last step that a range cut off; those that a fused
            activation cuts off do not count.
    """

    def __init__(self, graph: Graph, followed: Collection[int] = ()) -> None:
        """Begins with the ranges of the file.

        Args:
            graph: a fake-quantized graph.
            followed: tensors of numbers of the ranges that follow training.
        """
        self.ends: dict[int, Array] = {}
        self.numbers: dict[int, Array] = {}
        self.clipped: dict[int, float] = {}
        self._limits: dict[int, tuple[int, int]] = {}
        self._clamps: dict[int, tuple[float, float]] = {}
        self._estimated = {i for i, node in ranges(graph) if node.options["estimated"]}
        for i, node in ranges(graph):
            (a, b), (c, d) = node.options["clamp"], self._clamps.get(i, (-np.inf, np.inf))
            self._clamps[i] = max(a, c), min(b, d)
            if i in followed:
                scale, lo, hi = node.attrs.scale, node.attrs.lo, node.attrs.hi
                self.ends[i] = np.array([scale * lo, scale * hi])
                self.numbers[i] = node.attrs.numbers
                self._limits[i] = lo, hi

    def see(self, seen: Mapping[int, Array], step: int) -> None:
        """Widens the ranges to those of a step, or narrows them towards it.

        Args:
            seen: by tensor of the numbers, (5,) float64: smallest and largest value, the numbers
                of samples times the fractions of values below and above the limits, and these
                numbers of samples.
            step: number of the step, from 1.
        """
        for i, (least, most, below, above, samples) in seen.items():
            # Values beyond a limit count unless a fused activation would clamp them there, too.
            self.clipped[i] = float(np.isinf(self._clamps[i]) @ (below, above)) / samples
            if i in self.ends:
                gap = np.clip((least, most), *self._clamps[i]) - self.ends[i]
                replaced = step == 1 and i in self._estimated
                self.ends[i] += np.where((gap * OUTWARDS > 0) | replaced, 1.0, RATE) * gap

    def most_clipped(self) -> tuple[int, float] | None:
        """Returns the range of the file that cuts off the most values, and the fraction."""
        inner = ((i, part) for i, part in self.clipped.items() if i not in self.ends)
        return max(inner, key=lambda pair: pair[1], default=None)

    def current(self) -> dict[int, Array]:
        """Returns copies of the numbers of the ranges that follow training."""
        self.refresh()
        return {i: a.copy() for i, a in self.numbers.items()}

    def refresh(self) -> None:
        """Fills the numbers that FAKE_QUANT reads, after the ranges changed."""
        for i, ends in self.ends.items():
            least, most = ends.tolist()
            lo, hi = self._limits[i]
            if hi - lo > LEVELS:  # int16 is symmetric
                scale = max(least / lo, most / hi)
            else:
                scale = (most - least) / (hi - lo)
                first = round(least / scale) if scale else lo
                # Limits move by the zero point, so that they are the ends of the range.
                width = hi - lo
                lo = min(max(first, -width), 0)
                hi = lo + width
            scale = float(np.float32(scale)) or SMALLEST
            self.numbers[i][:] = fake_quant_numbers(scale, lo, hi)


def merge_seen(total: dict[int, Array], seen: Mapping[int, Array]) -> None:
    """Adds what was seen of ranges, as for `ActivationRanges.see`, to what others saw."""
    for i, a in seen.items():
        if i not in total:
            total[i] = a.copy()
            continue
        b = total[i]
        b[0], b[1] = min(a[0], b[0]), max(a[1], b[1])
        b[2:] += a[2:]
