"""Adds operators to a model, with the batch as the first axis of every shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from model_builder import ModelBuilder
from numpy.typing import NDArray

Shape = Sequence[int]


class Writer:
    """Adds the operators of one layer; shapes are those of a sample.

    Args:
        name: prefix of the names of weights.
    """

    def __init__(self, model: ModelBuilder, batch: int, name: str) -> None:
        self.model = model
        self.batch = batch
        self.name = name
        self.circle = model.identifier == b"CIR0"

    def add(self, op: str, inputs: Sequence[int], *shapes: Shape, **options: Any) -> int:
        return self.model.add_operator(
            op, inputs, *((self.batch, *shape) for shape in shapes), **options
        )

    def weight(self, name: str, values: NDArray[np.float32]) -> int:
        return self.model.add_constant(values, f"{self.name}/{name}")

    def constant(self, values: Sequence[int]) -> int:
        return self.model.add_constant(np.array(values, np.int32))

    def reshape(self, x: int, shape: Shape) -> int:
        target = [-1, *shape]
        return self.add("RESHAPE", [x, self.constant(target)], shape, new_shape=target)

    def transpose(self, x: int, axes: Sequence[int], shape: Shape) -> int:
        return self.add("TRANSPOSE", [x, self.constant(axes)], shape)

    def mean(self, x: int, axes: Sequence[int], shape: Shape, *, keep: bool) -> int:
        return self.add("MEAN", [x, self.constant(axes)], shape, keep_dims=keep)

    def normalize(self, x: int, shape: Shape, axes: Sequence[int], epsilon: float) -> int:
        """Adds x less its mean, over its standard deviation; axis 0 is the batch."""
        means = [1 if k + 1 in axes else n for k, n in enumerate(shape)]
        difference = self.add("SUB", [x, self.mean(x, axes, means, keep=True)], shape)
        squares = self.add("MUL", [difference, difference], shape)
        variance = self.mean(squares, axes, means, keep=True)
        variance = self.add("ADD", [variance, self.model.add_constant(np.float32(epsilon))], means)
        return self.add("MUL", [difference, self.add("RSQRT", [variance], means)], shape)

    def scale_and_shift(
        self, x: int, shape: Shape, gamma: NDArray[np.float32], beta: NDArray[np.float32]
    ) -> int:
        y = self.add("MUL", [x, self.weight("w", gamma[None])], shape)
        return self.add("ADD", [y, self.weight("b", beta[None])], shape)
