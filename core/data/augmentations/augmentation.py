"""The base class of augmentations, and facts about the data that they use."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.kernels.rows.scalars import is_number, plain

MIN_SAMPLES, MAX_SAMPLES = 16, 256  # from which statistics are computed
MAX_BYTES = 1 << 24  # of more than MIN_SAMPLES


@dataclass(frozen=True)
class Facts:
    """Statistics of the training inputs.

    Attributes:
        low, high, mean: smallest, largest and mean value.
        std: standard deviation of all values, or of each feature of a table (N, features).
    """

    low: float = 0.0
    high: float = 1.0
    mean: float = 0.0
    std: Any = 1.0


@dataclass(frozen=True)
class Augmentation:
    """A random change of a training sample; the base class of augmentations.

    Attributes:
        word: name on the command line.
        keeps_boxes: whether boxes of objects in a sample stay right: they stay where they are, or
            `apply_with_boxes` moves them.
    """

    word: ClassVar[str] = ""
    keeps_boxes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, plain(getattr(self, f.name)))

    def check(self, shape: Sequence[int]) -> None:
        """Checks the value, and that samples of this shape can be changed; raises OptionError."""

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Changes a sample in place.

        Args:
            x: one sample, float32, without axes of length 1.
            rng: random numbers that depend only on seed, epoch and sample.
            facts: statistics of the training inputs.
        """
        raise NotImplementedError

    def apply_with_boxes(
        self, x: Array, boxes: Array, rng: "np.random.Generator", facts: Facts
    ) -> None:
        """Changes a sample as `apply` does, and the boxes in it, in place.

        Args:
            x, rng, facts: as for `apply`.
            boxes: (M, 5) float32: class, y1, x1, y2, x2 as fractions of the sample; the class is −1
                in rows without a box.
        """
        self.apply(x, rng, facts)

    def __str__(self) -> str:
        """Returns the text on the command line: NAME:VALUE."""
        values = [getattr(self, f.name) for f in fields(self)]
        texts = (f"{v:g}" if is_number(v) else str(v) for v in values)
        return ":".join([self.word, *texts])

    def refuse(self, rule: str, got: object) -> OptionError:
        """Returns the error for an invalid value or shape."""
        return OptionError("augment", f"{self.word}: {rule}", got)

    def check_value(self, value: float, least: float, most: float) -> None:
        """Checks that a number is finite, above `least` and at most `most`; raises OptionError."""
        if not is_number(value) or not least < value <= most:
            end = f", up to {most:g}" if most < math.inf else " and finite"
            raise self.refuse(f"its value must be above {least:g}{end}", value)


@dataclass(frozen=True)
class Custom(Augmentation):
    """A custom augmentation: a function of a sample and a random generator.

    Args:
        function: returns the changed sample, or None after a change in place.
    """

    word: ClassVar[str] = "custom"
    function: "Callable[[Array, np.random.Generator], Array | None]" = lambda x, rng: None

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Calls the function."""
        result = self.function(x, rng)
        if result is not None:
            x[...] = result

    def __str__(self) -> str:
        return self.word


def statistics(
    data: Data,
    samples: SampleOrder,
    specs: Sequence[TensorSpec],
    index: int,
    shape: Sequence[int],
) -> Facts:
    """Computes the statistics of an input from evenly spaced samples.

    Args:
        data: source of the samples.
        samples: numbers of the training samples.
        specs: specs of one sample of each input.
        index: position of the input.
        shape: shape of a sample; one axis is that of a table, whose features have different units.
    """
    spec = specs[index]
    most = max(MIN_SAMPLES, min(MAX_SAMPLES, MAX_BYTES // max(spec.nbytes, 1)))
    positions = np.linspace(0, len(samples) - 1, min(len(samples), most), dtype=np.int64)
    rows = [np.empty((1, s.size), s.dtype) for s in specs]
    sums = np.zeros((2, spec.size))
    low, high = math.inf, -math.inf
    for number in np.asarray(samples)[positions].tolist():
        data.read(range(number, number + 1), rows, ())
        x = rows[index][0].astype(np.float64)
        low, high = min(low, float(x.min())), max(high, float(x.max()))
        sums += (x, x * x)
    means = sums / len(positions)
    if len(shape) == 1:
        return Facts(low, high, float(means[0].mean()), _deviation(*means).astype(np.float32))
    mean, square = means.mean(1)
    return Facts(low, high, float(mean), float(_deviation(mean, square)))


def _deviation(mean: Any, square: Any) -> Any:
    return np.sqrt(np.maximum(square - mean * mean, 0))
