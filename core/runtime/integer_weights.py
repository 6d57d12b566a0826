"""Weights that train as integers: no float copy is kept.

An update is computed on real numbers s q, tile by tile, and the result is rounded to integers
again: up with a probability of its fraction, so that steps smaller than an integer count on
average. Random numbers follow from seed, step and weight: equal runs give equal bits.

For SGD this is quantization-aware scaling: the gradient by q is s dL/dw, and divided by s² it moves
q by −lr / s · dL/dw, as much as SGD moves s q.

Source: Lin et al., *On-Device Training Under 256KB Memory* (2022), section 3.1; Gupta et al., *Deep
Learning with Limited Numerical Precision* (2015), for the rounding.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from odt.kernels.geometry.quantize import Quantization
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.binding import Calls
from odt.kernels.native.updates import bind_update_integers
from odt.kernels.rows.opdef import TILE, Array

# Updates real numbers by a gradient; both are flat; the mapping holds a part of each slot.
Rule = Callable[[Array, Array, Mapping[str, Array]], None]


class IntegerWeights:
    """Integers of a weight, or of its trained rows."""

    def __init__(
        self, quantization: WeightQuantization, integers: Array, rows: Array | None
    ) -> None:
        """Divides the weight into tiles.

        Args:
            quantization: quantization of the whole weight, which stays.
            integers: the integers, which updates change.
            rows: rows of the whole weight, along axis 0, that these are; None for all.
        """
        first = quantization.first
        scale, zero = first.scale, first.zero_point
        if rows is not None and scale.size > 1 and first.axis == 0:
            scale, zero = scale[rows], zero[rows]
        self._units = Quantization(scale, zero, first.axis)
        inner = int(np.prod(integers.shape[first.axis + 1 :], dtype=int))
        flat = integers.reshape(-1, copy=False)
        self._inner = flat.size if scale.size == 1 else inner
        if scale.size == 1:
            shape, along = (1, flat.size), (1, 1)
        elif inner == 1:  # units are columns
            shape, along = (-1, scale.size), (1, -1)
        else:  # a unit has a row for each entry of the axes before it
            repeats = flat.size // (scale.size * inner)
            scale, zero = np.tile(scale, repeats), np.tile(zero, repeats)
            shape, along = (-1, inner), (-1, 1)
        self._limits = quantization.limits
        self._integers = flat
        self._shape = flat.reshape(shape, copy=False).shape
        self._scale = scale.reshape(along).astype(np.float32)
        self._zero = zero.reshape(along).astype(np.float32)

    def bind_part(
        self,
        name: str,
        part: slice,
        gradient: Array,
        slots: Sequence[Array],
        numbers: Any,
        weight: int,
        origin: Array,
    ) -> Calls:
        """Returns the compiled update of some successive integers.

        Args:
            name: name of the optimizer's kernel.
            part: their positions in the flat weight.
            gradient: gradient of the part by the real numbers.
            slots: optimizer state of the part.
            numbers: those of the optimizer, read in each call.
            weight: number of the weight.
            origin: seed and step, read in each call.
        """
        return bind_update_integers(
            name,
            self._integers[part],
            gradient,
            *slots,
            numbers=numbers,
            units=self._units,
            limits=self._limits,
            inner=self._inner,
            first=part.start or 0,
            weight=weight,
            origin=origin,
        )

    def update(
        self,
        rule: Rule,
        gradient: Array,
        slots: Mapping[str, Array],
        key: tuple[int, int],
        work: Array,
    ) -> None:
        """Updates the integers.

        Args:
            rule: update of real numbers.
            gradient: gradient by the real numbers, flat; may be destroyed.
            slots: optimizer state, flat.
            key: two numbers from which the random numbers of the rounding follow.
            work: two tiles.
        """
        random = np.random.Generator(np.random.Philox(key=np.array(key, np.uint64)))
        rows, columns = self._shape
        height = max(TILE // columns, 1)
        for top in range(0, rows, height):
            bottom = min(top + height, rows)
            for left in range(0, columns, TILE):
                right = min(left + TILE, columns)
                # The values of a tile are contiguous: whole rows, or a part of one row.
                at = slice(top * columns + left, (bottom - 1) * columns + right)
                part = slice(top, bottom), slice(left, right)
                scale, zero = _part(self._scale, part), _part(self._zero, part)
                shape = (bottom - top, right - left)
                real, noise = (w[: shape[0] * shape[1]] for w in work)
                integers = self._integers[at].reshape(shape, copy=False)
                table = real.reshape(shape)
                np.subtract(integers, zero, out=table)
                np.multiply(table, scale, out=table)
                rule(real, gradient[at], {name: a[at] for name, a in slots.items()})
                np.divide(table, scale, out=table)
                np.add(table, zero, out=table)
                random.random(dtype=np.float32, out=noise)
                np.add(real, noise, out=real)
                np.floor(real, out=real)
                np.clip(real, *self._limits, out=real)
                np.copyto(integers, table, casting="unsafe")


def _part(a: Array, part: tuple[slice, slice]) -> Array:
    """Returns a part of scales or zero points, (rows or 1, columns or 1), for such values."""
    rows, columns = part
    a = a[rows] if a.shape[0] > 1 else a
    return a[:, columns] if a.shape[1] > 1 else a
