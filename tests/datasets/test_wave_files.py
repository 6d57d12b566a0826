"""WAV files as recorders and converters write them: formats, widths, pipes, odd chunks."""

import struct

import numpy as np
import pytest

from odt.datasets.wave_files import open_wave
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

GUID = bytes.fromhex("000000001000800000aa00389b71")
X = np.array([[0.5, -0.25], [-0.75, 0.125], [0.0, -1.0]])  # of two channels, exact in 8 bits


def integers(x: Array, width: int, order: str = "<") -> bytes:
    """Encodes samples as integers; 8 bits are unsigned."""
    if width == 1:
        return bytes(int(v * 128) + 128 for v in x.reshape(-1))
    scale = 2 ** (8 * width - 1)
    every = (int(v * scale).to_bytes(width, "little", signed=True) for v in x.reshape(-1))
    return b"".join(value if order == "<" else value[::-1] for value in every)


def form(
    kind: int, bits: int, channels: int = 2, rate: int = 16000, order: str = "<", more: bytes = b""
) -> bytes:
    align = channels * ((bits + 7) // 8)
    head = struct.pack(f"{order}HHIIHH", kind, channels, rate, rate * align, align, bits)
    return head + more


def extensible(kind: int, bits: int, valid: int = 0) -> bytes:
    more = struct.pack("<HHIH", 22, valid or bits, 3, kind) + GUID
    return form(0xFFFE, bits, more=more)


def chunk(name: bytes, data: bytes, size: int | None = None, order: str = "<") -> bytes:
    head = name + struct.pack(f"{order}I", len(data) if size is None else size)
    return head + data + bytes(len(data) % 2)


def riff(
    *chunks: bytes, magic: bytes = b"RIFF", size: int | None = None, order: str = "<"
) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack(f"{order}I", len(body) if size is None else size) + body


def read(data: bytes) -> list[float]:
    file = open_wave(data)
    assert file.rate == 16000
    return [float(v) for v in file.read(0, file.length)]


FORMS = {
    "8 bits": (form(1, 8), integers(X, 1)),
    "16 bits": (form(1, 16), integers(X, 2)),
    "24 bits": (form(1, 24), integers(X, 3)),
    "32 bits": (form(1, 32), integers(X, 4)),
    "float32": (form(3, 32, more=bytes(2)), X.astype("<f4").tobytes()),
    "float64": (form(3, 64, more=bytes(2)), X.astype("<f8").tobytes()),
    "extensible 16 bits": (extensible(1, 16), integers(X, 2)),
    "extensible 20 bits in 24": (extensible(1, 24, 20), integers(X, 3)),
    "extensible float32": (extensible(3, 32), X.astype("<f4").tobytes()),
}
MEAN = [0.125, -0.3125, -0.5]  # of the two channels


@pytest.mark.parametrize("name", FORMS)
def test_samples_of_every_width_are_the_same_numbers(name: str) -> None:
    head, data = FORMS[name]
    assert read(riff(chunk(b"fmt ", head), chunk(b"data", data))) == MEAN


def test_big_endian_files_and_files_with_long_sizes() -> None:
    head, data = form(1, 24, order=">"), integers(X, 3, ">")
    chunks = chunk(b"fmt ", head, order=">"), chunk(b"data", data, order=">")
    assert read(riff(*chunks, magic=b"RIFX", order=">")) == MEAN
    head, data = FORMS["16 bits"]
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, len(data), 3, 0))
    more = sizes, chunk(b"fmt ", head), chunk(b"data", data, 2**32 - 1), chunk(b"LIST", b"more")
    assert read(riff(*more, magic=b"RF64", size=2**32 - 1)) == MEAN


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF, 0xFFFFFFDA])
@pytest.mark.parametrize("of_file", [0, 36, 0x7FFFFF24, 0xFFFFFFFF])
def test_sizes_of_a_pipe_reach_to_the_end_of_the_file(size: int, of_file: int) -> None:
    head, data = FORMS["16 bits"]
    assert read(riff(chunk(b"fmt ", head), chunk(b"data", data, size), size=of_file)) == MEAN


def test_other_chunks_are_passed_over() -> None:
    head, data = FORMS["16 bits"]
    odd = (
        chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf\0"),
        chunk(b"bext", bytes(603)),
        chunk(b"fact", b"\3\0\0\0"),
    )
    end = chunk(b"id3 ", b"x" * 7)
    assert read(riff(*odd, chunk(b"fmt ", head), *odd, chunk(b"data", data), end)) == MEAN
    assert (
        read(riff(chunk(b"fmt ", head), chunk(b"data", data + b"\1"))) == MEAN
    )  # a part of a frame


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        # ITU-T G.711, tables 1a, 1b, 2a, 2b: ends of segments, in units of 1 / 32768.
        (6, {0xD5: 8, 0x55: -8, 0xAA: 32256, 0x2A: -32256, 0xC5: 264, 0xF5: 528, 0x80: 5504}),
        (
            7,
            {
                0xFF: 0,
                0x7F: 0,
                0x80: 32124,
                0x00: -32124,
                0xFE: 8,
                0xEF: 132,
                0x6F: -132,
                0x70: -120,
            },
        ),
    ],
)
def test_a_law_and_mu_law(kind: int, codes: dict[int, int]) -> None:
    data = riff(chunk(b"fmt ", form(kind, 8, 1, more=bytes(2))), chunk(b"data", bytes(codes)))
    file = open_wave(data)
    got = file.read(0, file.length) * 32768
    assert got.astype(int).tolist() == [*codes.values()]


def test_frames_are_read_by_number() -> None:
    file = open_wave(riff(chunk(b"fmt ", form(1, 16, 1)), chunk(b"data", integers(X, 2))))
    flat = X.reshape(-1).tolist()
    assert file.length == 6
    assert file.read(2, 4).tolist() == flat[2:4]
    assert file.read(-3, 99).tolist() == flat
    assert file.read(7, 9).size == 0


SAMPLES = chunk(b"data", integers(X, 2))
REFUSED = {
    "IMA ADPCM": (riff(chunk(b"fmt ", form(0x11, 4, 1)), SAMPLES), "has IMA ADPCM"),
    "MP3 inside": (riff(chunk(b"fmt ", form(0x55, 0, 1)), SAMPLES), "has MP3. Convert it: ffmpeg"),
    "an unknown format": (riff(chunk(b"fmt ", form(0x1234, 16)), SAMPLES), "has format 0x1234"),
    "a sub-format": (
        riff(chunk(b"fmt ", extensible(1, 16)[:-14] + bytes(14)), SAMPLES),
        "but has those of 0100",
    ),
    "64-bit integers": (riff(chunk(b"fmt ", form(1, 64)), SAMPLES), "but has 64 bits"),
    "no channels": (riff(chunk(b"fmt ", form(1, 16, 0)), SAMPLES), "channels, but has 0"),
    "no rate": (riff(chunk(b"fmt ", form(1, 16, rate=0)), SAMPLES), "per second, but has 0"),
    "cut off": (riff(chunk(b"fmt ", form(1, 16)), SAMPLES)[:-4], "but has 8: the file is cut off"),
    "no format": (riff(SAMPLES), "has no format before its samples"),
    "no samples": (riff(chunk(b"fmt ", form(1, 16))), "has no chunk of samples"),
    "no frames": (riff(chunk(b"fmt ", form(1, 16)), chunk(b"data", b"")), "recording is empty"),
    "a chunk past the end": (riff(chunk(b"LIST", b"abcd", 2**31)), "has 4 of 2147483648 bytes"),
    "Wave64": (bytes.fromhex("726966662e91cf11") + bytes(99), "is Sony Wave64. Convert it"),
    "m4a": (b"\0\0\0\x20ftypM4A " + bytes(99), "is MPEG-4"),
    "nothing": (b"", "but is empty"),
    "text": (b"hello, world", "begins with b'hell'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_named(name: str) -> None:
    data, words = REFUSED[name]
    with pytest.raises(DataError, match="must ") as caught:
        open_wave(data)
    assert words in str(caught.value)


def test_damaged_headers_end_in_an_error_or_in_samples() -> None:
    random = np.random.default_rng(0)
    chunks = chunk(b"LIST", bytes(7)), chunk(b"fmt ", extensible(3, 32)), chunk(b"data", bytes(64))
    good = riff(*chunks)
    for _ in range(2000):
        data = bytearray(good[: int(random.integers(len(good) + 1))])
        for at in random.integers(0, len(good), 3):
            if at < len(data):
                data[at] = random.integers(256)
        try:
            file = open_wave(bytes(data))
            assert len(file.read(0, file.length)) == file.length <= len(good)
        except DataError as e:
            assert len(str(e)) < 300  # noqa: PT017
