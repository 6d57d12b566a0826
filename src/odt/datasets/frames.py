"""Camera frames from a stream: raw pixels of a known size, or JPEG files one after the other.

Pixel formats have the names of FFmpeg. YUYV is converted as in ITU-R BT.601 with the limited range,
which is what cameras deliver.
"""

from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from odt.dataclass import dataclass
from odt.datasets.picture_files import decode_picture
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

CHUNK = 1 << 16
MAX_JPEG = 1 << 26  # bytes of one file
WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD9))  # markers that no length follows
START = b"\xff\xd8"  # first marker of a file
SCAN, END = 0xDA, 0xD9  # markers before compressed data, and at the end of a file


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """A form of raw frames.

    Attributes:
        nbytes: bytes of a pixel.
        decode: bytes (height, width, nbytes) → picture (height, width, 1 or 3).
    """

    nbytes: int
    decode: Callable[[Array], Array]


def _yuyv(x: Array) -> Array:
    """Converts Y0 U Y1 V of each pair of pixels to RGB."""
    height, width, _ = x.shape
    pairs = x.reshape(height, width // 2, 4).astype(np.float32)
    y = 1.164383 * (pairs[..., [0, 2]] - 16)
    u, v = pairs[..., 1:2] - 128, pairs[..., 3:4] - 128
    rgb = np.stack([y + 1.596027 * v, y - 0.391762 * u - 0.812968 * v, y + 2.017232 * u], axis=-1)
    return np.asarray(np.clip(np.rint(rgb), 0, 255), np.uint8).reshape(height, width, 3)


RAW = {
    "rgb24": PixelFormat(3, lambda x: x),
    "bgr24": PixelFormat(3, lambda x: x[..., ::-1]),
    "gray": PixelFormat(1, lambda x: x),
    "yuyv422": PixelFormat(2, _yuyv),
}
JPEG = "jpeg"


def read_frames(
    stream: IO[bytes], pixel_format: str, height: int = 0, width: int = 0
) -> Iterator[Array]:
    """Yields the frames of a stream as pictures (height, width, 1 or 3) of uint8.

    Args:
        stream: unbuffered, or with `readinto` that returns what there is.
        pixel_format: one of RAW, or JPEG.
        height, width: size of raw frames.

    Raises:
        DataError: if the stream ends within a frame, or a JPEG is damaged.
    """
    if pixel_format == JPEG:
        for data in _jpegs(stream):
            picture, _ = decode_picture(data)
            yield picture
        return
    form = RAW[pixel_format]
    if form.nbytes == 2 and width % 2:
        raise DataError(f"frames: the width must be even for {pixel_format}, but is {width}")
    frame = bytearray(height * width * form.nbytes)
    view = memoryview(frame)
    number = 0
    while filled := _fill(stream, view):
        if filled < len(frame):
            raise DataError(
                f"frame {number}: must have {len(frame)} bytes ({width}×{height} {pixel_format}), "
                f"but the stream ended after {filled}. Are size and pixel format right?"
            )
        pixels = np.frombuffer(frame, np.uint8).reshape(height, width, form.nbytes)
        yield np.ascontiguousarray(form.decode(pixels))
        number += 1


def _fill(stream: IO[bytes], view: memoryview) -> int:
    """Reads until the view is full or the stream ends; returns the number of bytes."""
    filled = 0
    while filled < len(view):
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return filled


def _jpegs(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields the JPEG files of a stream."""
    data = bytearray()
    chunk = bytearray(CHUNK)
    number = 0
    while count := stream.readinto(chunk):  # type: ignore[attr-defined]
        data += chunk[:count]
        while end := jpeg_end(data, number):
            yield bytes(data[:end])
            del data[:end]
            number += 1
        if len(data) > MAX_JPEG:
            raise DataError(f"frame {number}: a JPEG must have at most {MAX_JPEG} bytes.")
    if data:
        raise DataError(f"frame {number}: the stream ended within a JPEG.")


def jpeg_end(data: bytearray, number: int) -> int:
    """Returns the position after the first JPEG file of some bytes; 0 if it is not complete.

    Args:
        data: bytes that begin with the file.
        number: number of the frame, for messages.

    Raises:
        DataError: if the bytes do not begin with a JPEG.
    """
    if data[:2] != START[: len(data)]:  # there may be one byte, or none yet
        raise DataError(
            f"frame {number}: must be a JPEG, but begins with {bytes(data[:4]).hex(' ')}. Standard "
            "input must be JPEG images without gaps, or raw frames of a size that you give: "
            "`frame_size=640x480`. Give a table or other samples as a file: `source=FILE`."
        )
    position = len(START)
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            raise DataError(
                f"frame {number}: must be a JPEG, but has no marker at byte {position}."
            )
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in WITHOUT_LENGTH:
            position += 2
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
            if marker == SCAN:
                position = _after_scan(data, position)
        if data[position : position + 2] == bytes((0xFF, END)):
            return position + 2
    return 0


def _after_scan(data: bytearray, start: int) -> int:
    """Returns the position of the marker after compressed data, or the end of the bytes."""
    position = start
    while (position := data.find(b"\xff", position)) >= 0 and position + 1 < len(data):
        # A byte 0xFF of the data is followed by 0.
        if data[position + 1] and data[position + 1] not in WITHOUT_LENGTH:
            return position
        position += 2
    return len(data)
