"""Augmentations of sounds: waveforms (time) and spectrograms (time, frequency)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odt.core.data.augmentations.augmentation import Augmentation, Facts
from odt.kernels.rows.opdef import Array

MAX_DECIBELS = 60.0


@dataclass(frozen=True)
class TimeShift(Augmentation):
    """Shifts samples in time, along their first axis; the border is repeated.

    Args:
        fraction: largest shift as a fraction of the length, in both directions.
    """

    word: ClassVar[str] = "time-shift"
    fraction: float = 0.1

    def check(self, shape: Sequence[int]) -> None:
        """Checks the fraction."""
        self.check_value(self.fraction, 0, 1)

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Shifts a sample in place."""
        shift = round((2 * rng.random() - 1) * self.fraction * len(x))
        x[...] = x.take(np.arange(len(x)) - shift, 0, mode="clip")


@dataclass(frozen=True)
class Gain(Augmentation):
    """Makes waveforms louder or softer.

    Args:
        decibels: largest gain, in both directions.
    """

    word: ClassVar[str] = "gain"
    decibels: float = 6.0

    def check(self, shape: Sequence[int]) -> None:
        """Checks the value, and that samples are waveforms."""
        self.check_value(self.decibels, 0, MAX_DECIBELS)
        if len(shape) != 1:
            rule = "needs waveforms (time); use brightness for spectrograms"
            raise self.refuse(rule, tuple(shape))

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Multiplies a waveform in place."""
        x *= np.float32(10 ** ((2 * rng.random() - 1) * self.decibels / 20))


@dataclass(frozen=True)
class Mask(Augmentation):
    """Base class of the masks of SpecAugment (Park et al., 2019): fills a band with the mean.

    Args:
        fraction: largest width of the band as a fraction of the axis; the width is uniform.
    """

    axis: ClassVar[int] = 0
    fraction: float = 0.1

    def check(self, shape: Sequence[int]) -> None:
        """Checks the fraction, and that samples are spectrograms."""
        self.check_value(self.fraction, 0, 1)
        if len(shape) < 2:
            raise self.refuse("needs spectrograms (time, frequency)", tuple(shape))

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Masks a spectrogram in place."""
        size = x.shape[self.axis]
        width = int(rng.random() * (self.fraction * size + 1))
        first = int(rng.random() * (size - width + 1))
        band = slice(first, first + width)
        x[(slice(None), band) if self.axis else band] = x.mean()


@dataclass(frozen=True)
class TimeMask(Mask):
    """Time mask of SpecAugment: replaces some frames by the mean of the sample.

    Args:
        fraction: largest number of frames as a fraction of all; the number is uniform.
    """

    word: ClassVar[str] = "time-mask"


@dataclass(frozen=True)
class FrequencyMask(Mask):
    """Frequency mask of SpecAugment: replaces some bands by the mean of the sample.

    Args:
        fraction: largest number of bands as a fraction of all; the number is uniform.
    """

    word: ClassVar[str] = "frequency-mask"
    axis: ClassVar[int] = 1
