"""Images as arrays (H, W, C): color conversion, resizing, augmentation.

Pillow does the resizing: when it reduces an image, bilinear and area average over all pixels,
unlike TensorFlow's bilinear without antialias.
"""

import math
from typing import Any

import numpy as np

from odt.core.data.box_geometry import axis_movement, move_boxes
from odt.dataclass import dataclass
from odt.errors import DataError, MissingPackageError, OptionError
from odt.kernels.rows.opdef import Array

METHODS = ("bilinear", "nearest", "area")
FITS = ("stretch", "crop", "pad", "crop-or-pad")
MAX_PIXELS = 1 << 28
UNMOVED = (1.0, 0.0), (1.0, 0.0)  # factor and offset of rows and of columns


def pillow() -> Any:
    """Imports PIL.Image.

    Raises:
        MissingPackageError: if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as e:
        raise MissingPackageError(
            "images: reading and resizing need Pillow, which is not installed. Install it: pip "
            "install 'odt[images]'."
        ) from e
    return Image


def _with_channels(x: Array) -> Array:
    """Returns an image (H, W) or (H, W, C) as (H, W, C); raises DataError for other shapes."""
    if x.ndim == 2:
        return x[..., np.newaxis]
    if x.ndim != 3 or x.shape[2] not in (1, 2, 3, 4):
        raise DataError(f"an image must be (H, W, 1 … 4), but got {x.shape}")
    return x


def to_gray(x: Array) -> Array:
    """Converts to one channel: luma of ITU-R 601-2, rounded as in Pillow."""
    x = _with_channels(x)
    if x.shape[2] < 3:
        return x[..., :1]
    if x.dtype != np.uint8:
        return np.asarray(x[..., :3] @ np.array([[0.299], [0.587], [0.114]], x.dtype))
    wide = x.astype(np.uint32)  # with the weights 0.299, 0.587 and 0.114 times 2¹⁶
    luma = wide[..., :1] * 19595 + wide[..., 1:2] * 38470 + wide[..., 2:3] * 7471
    return ((luma + 0x8000) >> 16).astype(np.uint8)


def to_rgb(x: Array) -> Array:
    """Converts to three channels; transparency is dropped."""
    x = _with_channels(x)
    return np.repeat(x[..., :1], 3, axis=2) if x.shape[2] < 3 else x[..., :3]


@dataclass(frozen=True, slots=True)
class Resize:
    """Resizing of images to one size.

    Attributes:
        height, width: size of the result.
        method: interpolation method.
        fit: stretch changes the aspect ratio; crop keeps it and crops the longer side, centered;
            pad keeps it and fills with 0; crop-or-pad crops and fills without scaling.
    """

    height: int
    width: int
    method: str = "bilinear"
    fit: str = "stretch"

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1 or self.height * self.width > MAX_PIXELS:
            raise OptionError(
                "size", f"must have 1 to {MAX_PIXELS:,} pixels", f"{self.height}x{self.width}"
            )

    def apply(self, x: Array) -> Array:
        """Resizes an image (H, W) or (H, W, C) to (height, width, C)."""
        x = _with_channels(x)
        h, w = x.shape[:2]
        height, width = self.height, self.width
        if (h, w) == (height, width):
            return x
        if self.fit == "crop-or-pad":
            return _centered(x, height, width)
        if self.fit == "crop":
            return self._scaled(x, height, width, self._box(h, w))
        if self.fit == "pad":
            return _centered(self._scaled(x, *self._inner(h, w), None), height, width)
        return self._scaled(x, height, width, None)

    def apply_to_image(self, picture: Any) -> Any:
        """Resizes a Pillow image before it is copied to an array, if the method permits that."""
        if self.fit not in ("stretch", "crop"):
            return picture
        size = (self.width, self.height)
        box = self._box(picture.height, picture.width) if self.fit == "crop" else None
        return picture if picture.size == size else picture.resize(size, self._resample(), box)

    def _inner(self, h: int, w: int) -> tuple[int, int]:
        """Returns height and width of an image that is scaled to fit inside."""
        scale = min(self.height / h, self.width / w)
        return max(1, round(h * scale)), max(1, round(w * scale))

    def _box(self, h: int, w: int) -> tuple[float, float, float, float]:
        """Returns the box of an image that remains after cropping."""
        scale = min(h / self.height, w / self.width)
        left, top = (w - self.width * scale) / 2, (h - self.height * scale) / 2
        return left, top, w - left, h - top

    def _resample(self) -> Any:
        names = {"bilinear": "BILINEAR", "nearest": "NEAREST", "area": "BOX"}
        return pillow().Resampling[names[self.method]]

    def _scaled(self, x: Array, height: int, width: int, box: Any) -> Array:
        """Returns an image (H, W, C), or the part of it in a box, in another size."""
        image = pillow()
        resample = self._resample()
        if x.dtype == np.uint8 and x.shape[2] == 3:
            return np.asarray(image.fromarray(x).resize((width, height), resample, box))
        # Each channel alone: Pillow would weight those of two or four by the last, as transparency.
        dtype = np.uint8 if x.dtype == np.uint8 else np.float32
        planes = [
            np.asarray(image.fromarray(plane).resize((width, height), resample, box))
            for plane in np.ascontiguousarray(np.moveaxis(x, 2, 0), dtype)
        ]
        return np.stack(planes, axis=2)

    def place_boxes(self, boxes: Array, height: int, width: int) -> Array:
        """Returns boxes (M, 5) as fractions of the resized image.

        Args:
            boxes: class, y1, x1, y2, x2 as fractions of the image; class −1 for none.
            height, width: size of the image.
        """
        placing = self._placing(height, width)
        if placing == UNMOVED:
            return boxes
        placed = boxes.copy()
        move_boxes(placed, axis_movement(*placing))
        return placed

    def original_boxes(self, boxes: Array, height: int, width: int) -> Array:
        """Returns boxes (…, 4) of the resized image as fractions of the image.

        Args:
            boxes: y1, x1, y2, x2 as fractions of the resized image.
            height, width: size of the image.
        """
        (y_factor, y_offset), (x_factor, x_offset) = self._placing(height, width)
        offsets, factors = (y_offset, x_offset), (y_factor, x_factor)
        original: Array = (boxes - np.tile(offsets, 2)) / np.tile(factors, 2)
        return original

    def _placing(self, height: int, width: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Returns factor and offset from fractions of an image to those of the resized one.

        Args:
            height, width: size of the image.

        Returns:
            Factor and offset of rows, then those of columns.
        """
        if self.fit == "stretch" or (height, width) == (self.height, self.width):
            return UNMOVED
        if self.fit == "crop":
            left, top, right, bottom = self._box(height, width)
            scaled = height * self.height / (bottom - top), width * self.width / (right - left)
            offsets = -top * self.height / (bottom - top), -left * self.width / (right - left)
        elif self.fit == "pad":
            scaled = self._inner(height, width)
            offsets = (self.height - scaled[0]) // 2, (self.width - scaled[1]) // 2
        else:
            scaled = height, width
            offsets = _offset(height, self.height), _offset(width, self.width)
        sizes = self.height, self.width
        rows, columns = (
            (n / size, offset / size)
            for n, offset, size in zip(scaled, offsets, sizes, strict=True)
        )
        return rows, columns

    def describe(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            "height": self.height,
            "width": self.width,
            "method": self.method,
            "fit": self.fit,
        }


def _offset(size: int, new: int) -> int:
    """Returns the first row or column of the image in a centered crop or padding."""
    return (new - size) // 2 if new > size else -((size - new) // 2)


def _centered(x: Array, height: int, width: int) -> Array:
    """Crops or pads with 0 to a size, centered; an odd pixel is at the end."""
    y = np.zeros((height, width, x.shape[2]), x.dtype)
    h, w = min(height, x.shape[0]), min(width, x.shape[1])
    top, left = (x.shape[0] - h) // 2, (x.shape[1] - w) // 2
    down, right = (height - h) // 2, (width - w) // 2
    y[down : down + h, right : right + w] = x[top : top + h, left : left + w]
    return y


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Augmentation: changed copies of training samples.

    Attributes:
        factor: number of copies of each sample, including the original.
        flip: whether to flip left and right at random.
        shift: maximum shift in pixels, or in steps of a sound; uncovered values become 0.
        crop: maximum fraction of height and width to crop; the rest is stretched to full size.
        noise: standard deviation of added noise, in the units of the file.
    """

    factor: int = 2
    flip: bool = False
    shift: int = 0
    crop: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        fits = 0 <= self.shift <= MAX_PIXELS and 0 <= self.crop < 1 and 0 <= self.noise < math.inf
        if self.factor < 2 or not fits:
            raise OptionError(
                "augment, augment_factor",
                "must be flip, shift=PIXELS, crop=FRACTION below 1, noise=STD, and at least 2",
                self,
            )

    def move(self, x: Array, random: np.random.Generator, boxes: Array | None = None) -> Array:
        """Crops, flips and shifts a sample at random; its shape stays.

        Args:
            x: an image (H, W, C), or (H, W) of bytes; with a shift alone also a series (steps, …).
            random: source of random numbers.
            boxes: boxes (M, 5) in the sample, which are moved in place; None for none.
        """
        movements = []
        if self.crop:
            h, w = x.shape[:2]
            keep = 1 - random.uniform(0, self.crop)
            height, width = max(1, round(h * keep)), max(1, round(w * keep))
            top, left = random.integers(h - height + 1), random.integers(w - width + 1)
            x = Resize(h, w).apply(x[top : top + height, left : left + width]).reshape(x.shape)
            movements.append(((h / height, -top / height), (w / width, -left / width)))
        if self.flip and random.random() < 0.5:
            x = x[:, ::-1]
            movements.append(((1, 0), (-1, 1)))
        if self.shift:
            axes = 2 if x.ndim == 3 or (x.ndim == 2 and x.dtype == np.uint8) else 1
            sizes = x.shape[:axes]
            steps = random.integers(-self.shift, self.shift + 1, axes)
            steps = np.clip(steps, -np.array(sizes), sizes)
            pairs = [*zip(steps, sizes, strict=True)]
            target = tuple(slice(max(0, s), size + min(0, s)) for s, size in pairs)
            source = tuple(slice(max(0, -s), size - max(0, s)) for s, size in pairs)
            shifted = np.zeros_like(x)
            shifted[target] = x[source]
            x = shifted
            if axes == 2:
                movements.append(((1, steps[0] / sizes[0]), (1, steps[1] / sizes[1])))
        if boxes is not None:
            for rows, columns in movements:
                move_boxes(boxes, axis_movement(rows, columns))
        return x

    def add_noise(self, x: Array, random: np.random.Generator) -> Array:
        """Adds normal noise to the values of a sample."""
        if not self.noise:
            return x
        noise = random.standard_normal(x.shape, np.float32)
        return x + noise * np.float32(self.noise)

    def describe(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return {
            "factor": self.factor,
            "flip": self.flip,
            "shift": self.shift,
            "crop": self.crop,
            "noise": self.noise,
        }


def parse_augmentation(text: str, factor: int) -> Augmentation | None:
    """Parses an augmentation such as `flip,shift=2,crop=0.1,noise=0.05`.

    Raises:
        OptionError: for an unknown word, a word that comes twice, or an invalid number.
    """
    if not text:
        return None
    options: dict[str, Any] = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        if name in options:
            raise OptionError("augment", "must have each word once", f"{name} twice")
        try:
            if name == "flip" and not value:
                options[name] = True
            elif name == "shift":
                options[name] = int(value)
            elif name in ("crop", "noise"):
                options[name] = float(value)
            else:
                raise ValueError
        except ValueError:
            raise OptionError(
                "augment",
                "must be flip, shift=PIXELS, crop=FRACTION, noise=STD separated by commas",
                item,
            ) from None
    return Augmentation(factor, **options)
