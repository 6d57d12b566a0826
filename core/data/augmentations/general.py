"""Augmentations of any data: noise and mixup."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odt.core.data.augmentations.augmentation import Augmentation, Facts
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True)
class Noise(Augmentation):
    """Adds Gaussian noise.

    Args:
        strength: standard deviation of the noise, as a fraction of the standard deviation of the
            data; for tables, of each feature.
    """

    word: ClassVar[str] = "noise"
    keeps_boxes: ClassVar[bool] = True
    strength: float = 0.05

    def check(self, shape: Sequence[int]) -> None:
        """Checks the strength."""
        self.check_value(self.strength, 0, math.inf)

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Adds noise to a sample in place."""
        deviation = np.float32(self.strength) * np.asarray(facts.std, np.float32)
        x += rng.standard_normal(x.shape, np.float32) * deviation


@dataclass(frozen=True)
class Mixup(Augmentation):
    """Mixup: mixes inputs and targets of each sample with another sample's (Zhang et al., 2018).

    The result is λ x₁ + (1 − λ) x₂, with λ from the distribution Beta(α, α) for each sample x₁. x₂
    is a random training sample. Mixup is applied after the other augmentations.

    Args:
        alpha: α; with a larger α, samples are mixed in more equal parts.
    """

    word: ClassVar[str] = "mixup"
    alpha: float = 0.2

    def check(self, shape: Sequence[int]) -> None:
        """Checks α."""
        self.check_value(self.alpha, 0, math.inf)

    def draw(self, rng: "np.random.Generator", samples: int) -> tuple[float, int]:
        """Draws λ, and the position of the other sample among the training samples."""
        return rng.beta(self.alpha, self.alpha), int(rng.integers(samples))
