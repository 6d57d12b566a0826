"""Preprocesses samples, and describes the steps for the sidecar.

The order is fixed: 1 missing values · 2 color · 3 augmentation · 4 resize · 5 scale · 6 mean and
std · 7 noise · 8 axes and shape · 9 dtype; then the target.
"""

import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from odt.core.data.column import same_layout
from odt.core.data.scale import SCALES as OF_BYTES
from odt.core.data.scale import rescale
from odt.core.model.record import CHANNELS_FIRST
from odt.dataclass import dataclass
from odt.datasets.pictures import Augmentation, Resize, to_gray, to_rgb
from odt.datasets.source import MissingValueError
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

FLOAT32: np.dtype[Any] = np.dtype(np.float32)
SCALES = ("none", *OF_BYTES, "standardize")
COLORS = ("keep", "grayscale", "rgb")
MISSING = ("error", "drop", "mean", "median", "zero")
FITTED = ("mean", "median")  # replacements of missing values that the training split determines


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Steps of preprocessing for inputs.

    Attributes:
        missing: treatment of NaN: error, drop the sample, mean or median of the training split, or
            zero.
        color: color conversion of images.
        augmentation: augmentation of training samples.
        resize: resizing of images.
        scale: 0..1 is x / 255, −1..1 is x / 127.5 − 1, both in float32; with an integer dtype the
            scale is left to the reader of the file. standardize uses mean and standard deviation
            of the training split.
        mean, std: (x − mean) / std along the last axis: channels, features or bands.
        fill: replacement of missing values along the last axis.
        channels_first: whether images become (C, H, W), as models from PyTorch read them.
        shape: shape of a sample in the file, with the same number of elements; () keeps it.
        flatten: whether to flatten a sample to one axis.
        dtype: dtype of the file.
    """

    missing: str = "error"
    color: str = "keep"
    augmentation: Augmentation | None = None
    resize: Resize | None = None
    scale: str = "none"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    fill: tuple[float, ...] = ()
    channels_first: bool = False
    shape: tuple[int, ...] = ()
    flatten: bool = False
    dtype: np.dtype[Any] = FLOAT32

    def __post_init__(self) -> None:
        if self.dtype.kind in "iu" and (changes := self._changes()):
            raise OptionError(
                "dtype",
                "must be a float type if values become fractions",
                self.dtype,
                f'Give `dtype="float32"`, or leave out {" and ".join(changes)}.',
            )

    def _changes(self) -> list[str]:
        """Returns the arguments that turn whole numbers into fractions."""
        noise = self.augmentation is not None and self.augmentation.noise
        arguments = {
            '`scale="standardize"`': self.scale == "standardize",
            "`mean=`": self.mean,
            "`std=`": self.std,
            f'`missing="{self.missing}"`': self.missing in FITTED,
            "the noise of `augment=`": noise,
        }
        return [text for text, is_given in arguments.items() if is_given]

    @property
    def scale_left(self) -> str:
        """The scale that the reader of the file applies; empty for none."""
        return self.scale if self.dtype.kind in "iu" and self.scale in OF_BYTES else ""

    @property
    def must_be_fitted(self) -> bool:
        """Whether `fitted` must compute values from samples first."""
        return self.scale == "standardize" or (self.missing in FITTED and not self.fill)

    def has_values(self, x: Array) -> bool:
        """Whether an input has values that can be stored, or that are missing and replaced."""
        is_missing = np.isnan(x) if self.missing not in ("error", "drop") else False
        return bool(np.all(_is_stored(x) | is_missing))

    def fitted(self, samples: Callable[[], Iterable[Array]]) -> "Preprocessing":
        """Fits fill values, mean and standard deviation to samples, along the last axis.

        Mean and standard deviation are those after missing values are replaced.

        Args:
            samples: yields all samples, each time it is called.
        """
        steps = self
        if self.missing in FITTED:
            values = (self.resized(x) for x in samples())
            fill = _medians(values) if self.missing == "median" else _statistics(values)[0]
            steps = replace(self, fill=fill)
        if self.scale != "standardize":
            return steps
        mean, std = _statistics(self.resized(steps._fill(x)) for x in samples())
        return replace(steps, mean=mean, std=std)

    def apply(
        self, x: Array, random: np.random.Generator | None = None, boxes: Array | None = None
    ) -> Array:
        """Preprocesses one input of one sample.

        Args:
            x: the input.
            random: source of random numbers for augmentation; None for no augmentation.
            boxes: boxes (M, 5) in an image, which are moved in place; None for none.

        Raises:
            DataError: if a step does not apply to the sample.
        """
        x = self.resized(self._fill(x), random, boxes)
        if self.scale in OF_BYTES and not self.scale_left:
            x = x.astype(np.float32)
            rescale(x, self.scale)
        x = self._standardize(x)
        if random is not None and self.augmentation is not None:
            x = self.augmentation.add_noise(x, random)
        if self.channels_first and x.ndim == 3:
            x = np.moveaxis(x, 2, 0)
        if self.flatten:
            x = x.reshape(-1)
        if self.shape:
            if not same_layout(x.shape, self.shape):
                raise DataError(f"must become {self.shape}, but is {x.shape} after preprocessing")
            x = x.reshape(self.shape)
        return _convert(self._check_integers(x), self.dtype)

    def _check_integers(self, x: Array) -> Array:
        """Returns the values; raises DataError if an integer dtype cannot hold them."""
        if self.dtype.kind in "iu" and not np.can_cast(x.dtype, self.dtype):
            limits = np.iinfo(self.dtype)
            bad = x[(x < limits.min) | (x > limits.max) | (x != np.rint(x))]
            if bad.size:
                raise DataError(
                    f'`dtype="{self.dtype}"` holds whole numbers from {limits.min} to '
                    f"{limits.max}, but got {bad[0]:g}"
                )
        return x

    def _fill(self, x: Array) -> Array:
        if x.dtype.kind != "f" or not np.isnan(x).any():
            return x
        if self.missing in ("error", "drop"):
            is_missing = np.isnan(x).reshape(-1, x.shape[-1] if x.ndim else 1).any(axis=0)
            raise MissingValueError("a value is missing (NaN)", int(is_missing.argmax()))
        fill = np.asarray(self.fill) if self.missing in FITTED else 0.0
        return np.where(np.isnan(x), fill, x)

    def resized(
        self, x: Array, random: np.random.Generator | None = None, boxes: Array | None = None
    ) -> Array:
        """Converts colors, augments and resizes: the steps before the values are scaled.

        Args:
            x, random, boxes: as for `apply`.
        """
        if self.color == "grayscale":
            x = to_gray(x)
        elif self.color == "rgb":
            x = to_rgb(x)
        if random is not None and self.augmentation is not None:
            x = self.augmentation.move(x, random, boxes)
        if self.resize is None:
            return x
        if boxes is not None:
            boxes[...] = self.resize.place_boxes(boxes, *x.shape[:2])
        return self.resize.apply(x)

    def _standardize(self, x: Array) -> Array:
        if not self.mean and not self.std:
            return x
        channels = x.shape[-1] if x.ndim else 1
        if {len(self.mean), len(self.std)} - {0, 1, channels}:
            raise DataError(
                f"`mean=` and `std=`: must have 1 or {channels} values, but got "
                f"{len(self.mean)} and {len(self.std)}"
            )
        mean, std = np.asarray(self.mean or 0.0), np.asarray(self.std or 1.0)
        with np.errstate(over="ignore"):  # a sample with infinite values is refused
            return np.asarray((x - mean) / std, np.float32)

    def describe(self) -> list[dict[str, Any]]:
        """Describes the steps in order, as JSON values."""
        steps: list[dict[str, Any]] = []
        if self.missing != "error":
            steps.append({"step": "missing", "policy": self.missing, "values": [*self.fill]})
        if self.color != "keep":
            steps.append({"step": "color", "to": self.color})
        if self.resize is not None:
            steps.append({"step": "resize", **self.resize.describe()})
        if self.scale in OF_BYTES and not self.scale_left:
            steps.append({"step": "scale", "to": self.scale})
        if self.mean or self.std:
            steps.append({"step": "mean and std", "mean": [*self.mean], "std": [*self.std]})
        if self.channels_first:
            steps.append({"step": "axes", "to": CHANNELS_FIRST})
        if self.flatten:
            steps.append({"step": "flatten"})
        if self.shape:
            steps.append({"step": "shape", "shape": [*self.shape]})
        steps.append({"step": "dtype", "dtype": self.dtype.name})
        if self.scale_left:
            steps.append({"step": "scale", "to": self.scale, "when": "the file is read"})
        return steps


def _is_stored(x: Array) -> Array:
    """Tells which values are neither missing nor so large that their sample is refused."""
    return np.abs(x) <= np.finfo(np.float32).max


def _statistics(samples: Iterable[Array]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns mean and standard deviation of each feature; 0 and 1 for one without values.

    The standard deviation of a constant feature counts as 1, so that the feature becomes 0.
    """
    # Numbers of values, their means, and the sums of squared differences from these.
    count: Any = 0
    mean: Any = 0.0
    spread: Any = 0.0
    for sample in samples:
        x = np.asarray(sample, np.float64)
        x = x.reshape(-1, x.shape[-1] if x.ndim else 1)
        # Chan, Golub, LeVeque (1979): means and spreads of two parts give those of the whole.
        is_valid = _is_stored(x)
        x = np.where(is_valid, x, 0)
        n = is_valid.sum(axis=0)
        mean_of_sample = np.divide(x.sum(axis=0), n, where=n > 0, out=np.zeros(len(n)))
        spread_of_sample = np.where(is_valid, (x - mean_of_sample) ** 2, 0).sum(axis=0)
        both = np.maximum(count + n, 1)
        spread = spread + spread_of_sample + (mean_of_sample - mean) ** 2 * count * n / both
        mean = mean + (mean_of_sample - mean) * n / both
        count = count + n
    std = np.sqrt(spread / np.maximum(count, 1))
    std = np.where(std > 0, std, 1.0)
    return tuple(np.atleast_1d(mean).tolist()), tuple(np.atleast_1d(std).tolist())


def _medians(samples: Iterable[Array]) -> tuple[float, ...]:
    """Returns the median of each feature; 0 for one without values.

    The values of all samples are written to a temporary file, since they may exceed memory.
    """
    with tempfile.TemporaryFile() as file:
        rows = width = 0
        for sample in samples:
            x = np.asarray(sample, np.float64)
            x = x.reshape(-1, x.shape[-1] if x.ndim else 1)
            file.write(x.tobytes())
            rows += len(x)
            width = x.shape[1]
        file.flush()
        if not rows:
            return ()
        values = np.memmap(cast(Any, file), np.float64, "r", 0, (rows, width))
        medians = []
        for k in range(width):
            column = values[:, k]
            valid = column[_is_stored(column)]
            medians.append(float(np.median(valid)) if len(valid) else 0.0)
        return tuple(medians)


@dataclass(frozen=True, slots=True)
class Targets:
    """Form of targets in the file.

    Attributes:
        classes: class names; empty if targets are values.
        one_hot: one-hot rows of float32; otherwise class numbers of int32.
        boxes: class names of boxes; empty for other targets.
        dtype: dtype of values.
    """

    classes: tuple[str, ...] = ()
    one_hot: bool = True
    boxes: tuple[str, ...] = ()
    dtype: np.dtype[Any] = FLOAT32

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes of samples or boxes."""
        return self.classes or self.boxes

    def apply(self, target: Array) -> Array:
        """Converts a class number () or values to the form in the file.

        Raises:
            MissingValueError: if a value is NaN.
            DataError: if a class number is out of range.
        """
        if not self.classes:
            if target.dtype.kind == "f" and np.isnan(target).any():
                raise MissingValueError("the target is missing (NaN)")
            return _convert(np.atleast_1d(target), self.dtype)
        label = int(target)
        if not 0 <= label < len(self.classes):
            raise DataError(f"labels must be 0 … {len(self.classes) - 1}, but got {label}")
        if not self.one_hot:
            return np.asarray(label, np.int32)
        row = np.zeros(len(self.classes), np.float32)
        row[label] = 1
        return row

    def describe(self) -> str:
        """Returns the form in a word."""
        if not self.classes:
            return "boxes" if self.boxes else "values"
        return "one-hot" if self.one_hot else "sparse"


def _convert(x: Array, dtype: np.dtype[Any]) -> Array:
    """Converts values to the dtype of the file.

    Raises:
        DataError: if a value is infinite in this dtype.
    """
    with np.errstate(over="ignore"):
        y = np.ascontiguousarray(x, dtype)
    if y.dtype.kind == "f":
        infinite = np.isinf(y)
        if infinite.any():
            value = np.reshape(x, y.shape)[infinite][0]
            raise DataError(f"values must be finite in {dtype}, but got {value:g}")
    return y


def numbers(text: str, field: str) -> tuple[float, ...]:
    """Parses finite numbers separated by commas.

    Raises:
        OptionError: if the text is not such a list.
    """
    try:
        values = tuple(float(n) for n in text.split(",")) if text else ()
    except ValueError:
        values = (math.nan,)
    if not all(map(math.isfinite, values)):
        raise OptionError(field, "must be finite numbers separated by commas", text)
    return values
