"""Decodes image files with Pillow, and HEIC with pillow-heif."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from odt.core.storage.reading import guard, reading
from odt.datasets.file_suffixes import INSTALL_HEIF, has_heif
from odt.datasets.pictures import MAX_PIXELS, Resize, pillow
from odt.datasets.source import Remark
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

# Only these formats: for some others Pillow runs a program, whatever the file's name.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
SEVERAL = ("GIF", "PNG", "TIFF", "WEBP")  # formats whose files may hold several pictures
MAX_FLAT = 1 << 27  # bytes of pixels that even a tiny file, such as one of one color, may have
ORIENTATION = 0x0112  # tag of EXIF
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
AVIF_BRANDS = (b"avif", b"avis")
WIDE_GRAY = ("PNG", "PPM")  # formats of gray images in which 16 bits always mean 0 to 65535
FIRST = Remark("of several pictures in the file, only the first is read")
ROUNDED = Remark("rounded from 16 to 8 bits per channel")


def decode_picture(data: bytes, resize: Resize | None = None) -> tuple[Array, tuple[Remark, ...]]:
    """Decodes an image to uint8 (H, W, 3), rotated by its EXIF orientation.

    Gray PNG and PGM images of 16 bits are rounded to 8. Transparency is dropped.

    Args:
        data: bytes of the file.
        resize: resizing during decoding, which saves a copy; None for no resizing.

    Returns:
        The image, and what was changed or left out.

    Raises:
        DataError: if the file is damaged, too large, or of another format with more than 8 bits per
            channel, or the package that reads HEIC is missing.
        MissingPackageError: if Pillow is not installed.
    """
    with opened_picture("", "must be a valid image", data) as p:
        guard("", len(data), 3 * p.width * p.height, most=MAX_FLAT)
        remarks: list[Remark] = []
        if p.format in SEVERAL and getattr(p, "is_animated", False):
            remarks.append(FIRST)
        if _is_wide(p):
            remarks.append(ROUNDED)
        upright = _rgb(p)
        pixels = np.asarray(upright if resize is None else resize.apply_to_image(upright))
    return pixels, tuple(remarks)


@contextmanager
def opened_picture(where: str, rule: str, data: bytes) -> Iterator[Any]:
    """Opens the bytes of a file as a Pillow image; its pixels are not decoded yet.

    Args:
        where: name of the file in messages; empty if the caller adds it.
        rule: the rule that a damaged file breaks.
        data: bytes of the file.

    Raises:
        DataError: if the bytes are no image, or the package that reads HEIC is missing; also for
            exceptions in the `with` block.
        MissingPackageError: if Pillow is not installed.
    """
    image = pillow()
    with reading(where, rule), image.open(io.BytesIO(data), formats=_formats(data)) as picture:
        yield picture


def _formats(data: bytes) -> tuple[str, ...]:
    """Returns the formats that a file may have, by its first bytes."""
    if data[4:8] != b"ftyp":
        return FORMATS
    if data[8:12] in AVIF_BRANDS:
        from PIL import features

        if not features.check("avif"):
            raise DataError("must be read with Pillow 11.3 or newer, because it is AVIF")
        return ("AVIF",)
    if data[8:12] not in HEIF_BRANDS:
        return FORMATS
    if not has_heif():
        raise DataError(f"must be read with pillow-heif, because it is HEIC: {INSTALL_HEIF}")
    import pillow_heif

    pillow_heif.register_heif_opener()
    return ("HEIF",)


def _rgb(picture: Any) -> Any:
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError(f"{picture.width}×{picture.height} pixels")
    is_wide = _is_wide(picture)
    if is_wide and picture.format not in WIDE_GRAY:
        raise DataError(
            "must have 8 bits per channel, or be a gray PNG or PGM image of 16 bits, but is "
            f"{picture.format} in Pillow's mode {picture.mode}. Convert it, or give its values as "
            "an array in an .npz file."
        )
    upright = _upright(picture)
    if is_wide:
        wide = np.asarray(upright).astype(np.uint32)
        upright = pillow().fromarray(((wide * 255 + 32767) // 65535).astype(np.uint8))
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def _is_wide(picture: Any) -> bool:
    """Whether pixels are single values of 16 or 32 bits: integers or floats."""
    return bool(picture.mode[0] in "IF")


def _upright(picture: Any) -> Any:
    """Rotates an image by its EXIF orientation; most images have none."""
    if ORIENTATION not in picture.getexif():
        return picture
    from PIL import ImageOps

    return ImageOps.exif_transpose(picture)
