"""Augmentations of images (H, W), (H, W, C) or (C, H, W) with at most four channels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odt.core.data.augmentations.augmentation import Augmentation, Facts
from odt.core.data.box_geometry import axis_movement, move_boxes
from odt.kernels.rows.opdef import Array

CHANNELS = 4  # an axis that is longer is no axis of channels
KEPT, MIRRORED = (1, 0), (-1, 1)  # factor and offset of an axis
MAX_SCALING = 0.9  # largest change of a size
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


def channels_last(x: Array) -> Array:
    """Views an image as (H, W, C)."""
    if x.ndim == 2:
        return x[:, :, np.newaxis]
    return x if x.shape[-1] <= CHANNELS else x.transpose(1, 2, 0)


@dataclass(frozen=True)
class ImageAugmentation(Augmentation):
    """Base class: `change` gets the image as (H, W, C)."""

    keeps_boxes: ClassVar[bool] = True

    def check(self, shape: Sequence[int]) -> None:
        """Checks that the input is an image."""
        gray = len(shape) == 2
        if not gray and not (len(shape) == 3 and min(shape[0], shape[-1]) <= CHANNELS):
            raise self.refuse("needs images (H, W), (H, W, C) or (C, H, W)", tuple(shape))

    def apply(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Changes an image in place."""
        self.change(channels_last(x), rng, facts)

    def apply_with_boxes(
        self, x: Array, boxes: Array, rng: "np.random.Generator", facts: Facts
    ) -> None:
        """Changes an image in place, and moves its boxes with it."""
        movement = self.change(channels_last(x), rng, facts)
        if movement is not None:
            move_boxes(boxes, movement)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Changes an image (H, W, C) in place.

        Returns:
            The movement of its points (2, 3), as in core/data/box_geometry.py; None if they stay.
        """
        raise NotImplementedError


def resample(x: Array, ys: Array, xs: Array) -> None:
    """Resamples an image at other positions: bilinear, with the border repeated.

    Args:
        x: image (H, W, C), changed in place.
        ys, xs: row and column of each pixel in the old image, (H, W).
    """
    height, width, channels = x.shape
    top, down_weight = _between(ys, height)
    left, right_weight = _between(xs, width)
    pixels = np.ascontiguousarray(x).reshape(-1, channels)
    first = (top * width + left).ravel()
    right, down = min(width - 1, 1), min(height - 1, 1) * width  # steps to the next pixel
    above, below = (
        _blend(pixels.take(at, 0), pixels.take(at + right, 0), right_weight.reshape(-1, 1))
        for at in (first, first + down)
    )
    x[...] = _blend(above, below, down_weight.reshape(-1, 1)).reshape(x.shape)


def resample_axis(x: Array, positions: Array, axis: int) -> Array:
    """Resamples an image along one axis: linear, with the border repeated."""
    size = x.shape[axis]
    before, weight = _between(positions, size)
    shape = [1, 1, 1]
    shape[axis] = -1
    after = np.minimum(before + 1, size - 1)
    return _blend(x.take(before, axis), x.take(after, axis), weight.reshape(shape))


def _between(positions: Array, size: int) -> tuple[Array, Array]:
    """Returns the integer below each position, and the distance from it."""
    inside = np.clip(positions, 0, size - 1)
    before = np.minimum(inside.astype(np.intp), max(size - 2, 0))
    return before, (inside - before).astype(np.float32)


def _blend(a: Array, b: Array, weight: Array) -> Array:
    """Computes a ← a + weight (b − a); overwrites b."""
    b -= a
    b *= weight
    a += b
    return a


@dataclass(frozen=True)
class Flip(ImageAugmentation):
    """Mirrors half of the images.

    Args:
        axis: horizontal (left and right are exchanged), vertical, or both independently.
    """

    word: ClassVar[str] = "flip"
    axis: str = "horizontal"

    def check(self, shape: Sequence[int]) -> None:
        """Checks the axis and the shape."""
        super().check(shape)
        if self.axis not in ("horizontal", "vertical", "both"):
            raise self.refuse("its value must be horizontal, vertical or both", self.axis)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Mirrors the image with probability 1/2."""
        rows = columns = KEPT
        if self.axis != "vertical" and rng.random() < 0.5:
            x[...] = x[:, ::-1].copy()
            columns = MIRRORED
        if self.axis != "horizontal" and rng.random() < 0.5:
            x[...] = x[::-1].copy()
            rows = MIRRORED
        return axis_movement(rows, columns)


@dataclass(frozen=True)
class Shift(ImageAugmentation):
    """Shifts images by whole pixels; the border is repeated.

    Args:
        fraction: largest shift as a fraction of height and width.
    """

    word: ClassVar[str] = "shift"
    fraction: float = 0.1

    def check(self, shape: Sequence[int]) -> None:
        """Checks the fraction and the shape."""
        super().check(shape)
        self.check_value(self.fraction, 0, 1)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Shifts the image along both axes."""
        image = x
        offsets = []
        for axis, size in enumerate(x.shape[:2]):
            shift = round((2 * rng.random() - 1) * self.fraction * size)
            image = image.take(np.arange(size) - shift, axis, mode="clip")
            offsets.append(shift / size)
        x[...] = image
        return axis_movement((1, offsets[0]), (1, offsets[1]))


@dataclass(frozen=True)
class Crop(ImageAugmentation):
    """Crops a random part of images and enlarges it to the full size.

    Args:
        fraction: smallest height and width of the part, as a fraction of the image's.
    """

    word: ClassVar[str] = "crop"
    fraction: float = 0.8

    def check(self, shape: Sequence[int]) -> None:
        """Checks the fraction and the shape."""
        super().check(shape)
        self.check_value(self.fraction, 0, 1)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Crops the image; keeps the aspect ratio."""
        scale = 1 - rng.random() * (1 - self.fraction)
        height, width = x.shape[:2]
        top, left = (n * (1 - scale) * rng.random() for n in (height, width))
        rows, columns = (
            (first + scale * (np.arange(n) + 0.5) - 0.5).astype(np.float32)
            for n, first in ((height, top), (width, left))
        )
        x[...] = resample_axis(resample_axis(x, rows, 0), columns, 1)
        return axis_movement((1 / scale, -top / height / scale), (1 / scale, -left / width / scale))


@dataclass(frozen=True)
class Scale(ImageAugmentation):
    """Enlarges or reduces images about their center; uncovered pixels get the mean of the data.

    Args:
        strength: largest change of the size, which is 1 − strength … 1 + strength.
    """

    word: ClassVar[str] = "scale"
    strength: float = 0.2

    def check(self, shape: Sequence[int]) -> None:
        """Checks the strength and the shape."""
        super().check(shape)
        self.check_value(self.strength, 0, MAX_SCALING)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Scales the image; keeps the aspect ratio."""
        factor = 1 + (2 * rng.random() - 1) * self.strength
        for axis, size in enumerate(x.shape[:2]):
            positions = (np.arange(size) + 0.5 - size / 2) / factor + size / 2 - 0.5
            outside = np.flatnonzero((positions < -0.5) | (positions > size - 0.5))
            x[...] = resample_axis(x, positions.astype(np.float32), axis)
            x[(slice(None), outside) if axis else outside] = facts.mean
        offset = (1 - factor) / 2
        return axis_movement((factor, offset), (factor, offset))


@dataclass(frozen=True)
class Rotate(ImageAugmentation):
    """Rotates images about their center; the border is repeated.

    Args:
        degrees: largest angle, in both directions.
    """

    word: ClassVar[str] = "rotate"
    degrees: float = 15.0

    def check(self, shape: Sequence[int]) -> None:
        """Checks the angle and the shape."""
        super().check(shape)
        self.check_value(self.degrees, 0, 180)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> Array | None:
        """Rotates the image."""
        angle = np.deg2rad((2 * rng.random() - 1) * self.degrees)
        sine, cosine = np.float32(np.sin(angle)), np.float32(np.cos(angle))
        height, width = x.shape[:2]
        ys = np.arange(height, dtype=np.float32)[:, np.newaxis] - np.float32((height - 1) / 2)
        xs = np.arange(width, dtype=np.float32)[np.newaxis] - np.float32((width - 1) / 2)
        rows = cosine * ys + sine * xs + np.float32((height - 1) / 2)
        columns = cosine * xs - sine * ys + np.float32((width - 1) / 2)
        resample(x, rows, columns)
        # The inverse of this mapping, about the center, in fractions of height and width.
        turn = np.array([[cosine, -sine * width / height], [sine * height / width, cosine]])
        return np.column_stack([turn, 0.5 - turn.sum(axis=1) / 2])


@dataclass(frozen=True)
class ColorAugmentation(ImageAugmentation):
    """Base class: moves each pixel away from or towards a reference value.

    Args:
        strength: largest change of the factor, which is 1 − strength … 1 + strength.
    """

    strength: float = 0.2

    def check(self, shape: Sequence[int]) -> None:
        """Checks the strength and the shape."""
        super().check(shape)
        self.check_value(self.strength, 0, 1)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Computes reference + factor · (x − reference), within the range of the data."""
        factor = np.float32(1 + (2 * rng.random() - 1) * self.strength)
        reference = self.reference(x, facts)
        x -= reference
        x *= factor
        x += reference
        np.clip(x, np.float32(facts.low), np.float32(facts.high), out=x)

    def reference(self, x: Array, facts: Facts) -> Array:
        """Returns the reference values, which do not change."""
        raise NotImplementedError


@dataclass(frozen=True)
class Brightness(ColorAugmentation):
    """Makes images brighter or darker: the smallest value of the data is black.

    Args:
        strength: largest change of the factor, which is 1 − strength … 1 + strength.
    """

    word: ClassVar[str] = "brightness"

    def reference(self, x: Array, facts: Facts) -> Array:
        """Returns black."""
        return np.array(facts.low, np.float32)


@dataclass(frozen=True)
class Contrast(ColorAugmentation):
    """Changes the contrast of images; the mean value of an image does not change.

    Args:
        strength: largest change of the factor, which is 1 − strength … 1 + strength.
    """

    word: ClassVar[str] = "contrast"

    def reference(self, x: Array, facts: Facts) -> Array:
        """Returns the mean value of the image."""
        return np.array(x.mean(), np.float32)


@dataclass(frozen=True)
class Saturation(ColorAugmentation):
    """Changes the saturation of RGB images; gray pixels do not change.

    Args:
        strength: largest change of the factor, which is 1 − strength … 1 + strength.
    """

    word: ClassVar[str] = "saturation"

    def check(self, shape: Sequence[int]) -> None:
        """Checks the strength and that there are three channels."""
        super().check(shape)
        image = np.broadcast_to(np.float32(), shape)  # which takes no memory
        if len(shape) != 3 or channels_last(image).shape[-1] != 3:
            raise self.refuse("needs images with three channels", tuple(shape))

    def reference(self, x: Array, facts: Facts) -> Array:
        """Returns the gray value of each pixel."""
        return (x @ LUMA)[:, :, np.newaxis]


@dataclass(frozen=True)
class Cutout(ImageAugmentation):
    """Replaces a random square by the mean value of the data (DeVries and Taylor, 2017).

    Args:
        fraction: side of the square as a fraction of the shorter side. Its center is a random point
            of the image, so part of the square may be outside.
    """

    word: ClassVar[str] = "cutout"
    fraction: float = 0.25

    def check(self, shape: Sequence[int]) -> None:
        """Checks the fraction and the shape."""
        super().check(shape)
        self.check_value(self.fraction, 0, 1)

    def change(self, x: Array, rng: "np.random.Generator", facts: Facts) -> None:
        """Fills the square."""
        side = max(1, round(self.fraction * min(x.shape[:2])))
        top, left = (int(rng.random() * n) - side // 2 for n in x.shape[:2])
        x[max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = facts.mean
