"""What is done to a sample on its way to the file, in this order, and what the sidecar says of it.

1 colour · 2 augmentation · 3 resize · 4 scale · 5 noise · 6 flatten · 7 dtype; then the label.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.errors import DataError
from odt.kernels.opdef import Array

FLOAT32: np.dtype[Any] = np.dtype(np.float32)
SCALES = ("none", "0..1", "-1..1")


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Steps for inputs.

    Attributes:
        scale: of bytes: 0..1 is x / 255, −1..1 is x / 127.5 − 1, in float32.
        flatten: to one axis.
        dtype: of the file.
    """

    scale: str = "none"
    flatten: bool = False
    dtype: np.dtype[Any] = FLOAT32

    def apply(self, x: Array) -> Array:
        if self.scale != "none":
            x = x.astype(np.float32)
            x /= np.float32(255 if self.scale == "0..1" else 127.5)
            if self.scale == "-1..1":
                x -= np.float32(1)
        if self.flatten:
            x = x.reshape(-1)
        return np.ascontiguousarray(x, self.dtype)

    def describe(self) -> list[dict[str, Any]]:
        """Steps in order, as JSON values."""
        steps: list[dict[str, Any]] = []
        if self.scale != "none":
            steps.append({"step": "scale", "to": self.scale})
        if self.flatten:
            steps.append({"step": "flatten"})
        return [*steps, {"step": "dtype", "dtype": self.dtype.name}]


@dataclass(frozen=True, slots=True)
class Targets:
    """How targets stand in the file.

    Attributes:
        classes: names; empty where targets are values.
        one_hot: a row of float32 with a one; else the class number, int32.
    """

    classes: tuple[str, ...] = ()
    one_hot: bool = True

    def apply(self, target: Array) -> Array:
        if not self.classes:
            return np.ascontiguousarray(target, np.float32)
        label = int(target)
        if not 0 <= label < len(self.classes):
            raise DataError(f"labels must be 0 … {len(self.classes) - 1}, but got {label}.")
        if not self.one_hot:
            return np.asarray(label, np.int32)
        row = np.zeros(len(self.classes), np.float32)
        row[label] = 1
        return row

    def describe(self) -> str:
        if not self.classes:
            return "values"
        return "one-hot" if self.one_hot else "sparse"
