"""DataLoader: batches from arrays or files."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from odt.core.storage.reading import open_input
from odt.kernels.rows.opdef import Array

Source: TypeAlias = list[Array] | Array | str
Batch: TypeAlias = tuple[list[Array], list[Array]]


class DataLoader:
    """Yields batches of inputs and expected outputs, in order.

    If the last batch is incomplete, its first samples are repeated to fill it.

    Attributes:
        inputs: one array for each model input; the first axis counts samples.
        expecteds: one array for each model output.
        num_samples: number of samples.
        batch_size: samples per batch.
    """

    def __init__(
        self,
        input_dataset: Source,
        expected_dataset: Source,
        batch_size: int,
        input_shape: tuple[int, ...] | None = None,
        expected_shape: tuple[int, ...] | None = None,
        dtype: Any = np.float32,
    ) -> None:
        """Opens the data.

        Args:
            input_dataset: a list with one array for each model input; or one array, whose first
                axis counts model inputs; or the path of a .npy, .bin or .raw file for a single
                input.
            expected_dataset: expected outputs, in any of these forms.
            batch_size: samples per batch.
            input_shape: shape of the input file (.bin or .raw), the number of samples first.
            expected_shape: shape of the file of expected outputs.
            dtype: element type of a .bin or .raw file.

        Raises:
            DataError: if a file cannot be opened.
            ValueError: if the data has another type, size or number of samples, or the batch size
                is below 1.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: must be 1 or more, but got {batch_size}")
        self.batch_size = batch_size
        self.inputs = _arrays(input_dataset, input_shape, dtype)
        self.expecteds = _arrays(expected_dataset, expected_shape, dtype)
        lengths = {len(a) for a in self.inputs + self.expecteds}
        if len(lengths) != 1:
            raise ValueError(f"data: all must have the same length, but got {sorted(lengths)}")
        self.num_samples = lengths.pop()

    def __iter__(self) -> Iterator[Batch]:
        for first in range(0, self.num_samples, self.batch_size):
            last = min(first + self.batch_size, self.num_samples)
            rows: Any = slice(first, last)
            if last - first < self.batch_size:
                rows = first + np.arange(self.batch_size) % (last - first)
            yield [a[rows] for a in self.inputs], [a[rows] for a in self.expecteds]

    def split(self, validation_split: float) -> tuple["DataLoader", "DataLoader"]:
        """Splits into samples for training and, from the end, samples for validation.

        Args:
            validation_split: fraction of the samples used for validation, 0 … 1.

        Raises:
            ValueError: if the fraction is not within 0 … 1.
        """
        if not 0 <= validation_split <= 1:
            raise ValueError(f"validation_split: must be 0 … 1, but got {validation_split}")
        border = int(self.num_samples * (1.0 - validation_split))
        first, rest = (
            DataLoader(
                [a[part] for a in self.inputs], [a[part] for a in self.expecteds], self.batch_size
            )
            for part in (slice(border), slice(border, None))
        )
        return first, rest


def _arrays(source: Source, shape: tuple[int, ...] | None, dtype: Any) -> list[Array]:
    if isinstance(source, str):
        return [_file(source, shape, dtype)]
    if isinstance(source, np.ndarray):
        return list(source) if source.ndim > 1 else [source]
    if isinstance(source, list) and source and all(isinstance(a, np.ndarray) for a in source):
        return source
    raise ValueError(f"data: must be arrays, an array or a path, but got {type(source).__name__}")


def _file(path: str, shape: tuple[int, ...] | None, dtype: Any) -> Array:
    ending = Path(path).suffix
    if ending == ".npy":
        with open_input(path) as file:
            array: Array = np.load(file)
            return array
    if ending not in (".bin", ".raw"):
        raise ValueError(f"{path}: must be a .npy, .bin or .raw file, but got {ending!r}")
    if shape is None:
        raise ValueError(f"{path}: the shape of its samples must be given, but got none")
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        if nbytes != size:
            raise ValueError(f"{path}: must have {nbytes} bytes for {shape}, but got {size}")
        return np.fromfile(file, dtype).reshape(shape)
