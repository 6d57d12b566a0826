"""Frames from a stream: raw pixels, and JPEG files one after the other."""

import io

import numpy as np
import pytest
from support.datafiles import jpeg

from odt.datasets.frames import jpeg_end, read_frames
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

RANDOM = np.random.default_rng(0)


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file, self._most = io.BytesIO(data), most

    def readinto(self, view: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(min(self._most, len(view)))
        view[: len(data)] = data
        return len(data)


def frames(data: bytes, *args: object, most: int = 7) -> list[Array]:
    return [f.copy() for f in read_frames(Trickle(data, most), *args)]  # type: ignore[arg-type]


def test_yuyv_is_bt601() -> None:
    """Black, white, red, green and blue in the limited range of the recommendation."""
    known = {
        (16, 128, 128): (0, 0, 0), (235, 128, 128): (255, 255, 255), (81, 90, 240): (254, 0, 0),
        (145, 54, 34): (0, 255, 1), (41, 240, 110): (0, 0, 255),
    }  # fmt: skip
    for (y, u, v), rgb in known.items():
        (frame,) = frames(bytes([y, u, y, v]), "yuyv422", 1, 2)
        assert np.abs(frame.astype(int) - rgb).max() <= 1


def test_jpegs_are_found_by_their_markers() -> None:
    pictures = [RANDOM.integers(0, 256, (n, 9, 3), np.uint8) for n in (8, 20, 3)]
    data = [jpeg(p, "JPEG") for p in pictures]
    # A comment that holds what looks like the end of a file.
    data[1] = data[1][:2] + b"\xff\xfe\x00\x06\xff\xd9\xff\xd9" + data[1][2:]
    for most in (1, 13, 1 << 16):
        assert [f.shape[0] for f in frames(b"".join(data), "jpeg", most=most)] == [8, 20, 3]
    for cut in range(len(data[0])):
        assert jpeg_end(bytearray(data[0][:cut]), 0) == 0
    assert jpeg_end(bytearray(data[0] + b"rest"), 0) == len(data[0])


@pytest.mark.parametrize(
    ("data", "args", "said"),
    [
        (b"\0" * 12, ("jpeg",), "frame 0: must be a JPEG, but begins with 00 00 00 00"),
        (b"a,b\n1,2\n", ("jpeg",), "61 2c 62 0a. Standard input .* as a file: `source=FILE`"),
        (b"\xff\xd8\xff\xe0", ("jpeg",), "frame 0: the stream ended within a JPEG"),
        (b"\xff\xd8abcdef", ("jpeg",), "has no marker at byte 2"),
        (b"\0" * 13, ("rgb24", 2, 2), "frame 1: must have 12 bytes"),
        (b"\0" * 13, ("yuyv422", 2, 3), "the width must be even"),
    ],
)
def test_other_streams_are_one_line(data: bytes, args: tuple[object, ...], said: str) -> None:
    with pytest.raises(DataError, match=said):
        frames(data, *args)
