"""Reads WAV files: RIFF, RIFX and RF64 with samples of integers, floats, A-law or µ-law.

The reader is our own because Python's `wave` reads integers alone, and extensible headers only from
Python 3.12 on. Sources: Microsoft, Multimedia Programming Interface and Data Specifications 1.0;
EBU Tech 3306 (RF64); ITU-T G.711 (A-law and µ-law).
"""

import struct
from collections.abc import Mapping
from functools import cache

import numpy as np

from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

MAX_RATE = 768_000  # Hz, more than any audio converter has
MAX_CHANNELS = 1024
PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
# The last 14 bytes of a sub-format; its first two are a format of the table above.
SUB_FORMAT = bytes.fromhex("000000001000800000aa00389b71")
# Sizes from here on are those of programs that write to a pipe and cannot return to the header.
UNKNOWN_SIZE = 0x7FFF0000
COMPRESSED = {
    0x0002: "Microsoft ADPCM",
    0x0011: "IMA ADPCM",
    0x0031: "GSM 6.10",
    0x0050: "MPEG",
    0x0055: "MP3",
    0x00FF: "AAC",
    0x0161: "Windows Media Audio",
    0x674F: "Ogg Vorbis",
    0xF1AC: "FLAC",
}
CONVERT = "Convert it: ffmpeg -i OLD NEW.wav"
# First bytes → name of kinds of sound that odt does not read.
OTHERS: Mapping[bytes, str] = {
    b"riff\x2e\x91\xcf\x11": "Sony Wave64",
    b"\xff\xf1": "AAC",
    b"FORM": "AIFF",
    b".snd": "Sun audio",
    b"caff": "Core Audio",
    b"\x1aE\xdf\xa3": "Matroska or WebM",
}


@dataclass(frozen=True, slots=True)
class WaveFile:
    """The samples of a WAV file, decoded when they are read.

    Attributes:
        rate: sample rate in Hz.
        length: number of frames, each with one value of every channel.
    """

    rate: int
    length: int
    _data: memoryview
    _channels: int
    _kind: int
    _width: int  # bytes of a value
    _order: str  # "<" or ">"

    def read(self, start: int, stop: int) -> Array:
        """Reads frames as float32 between −1 and 1, averaged over channels.

        Args:
            start, stop: numbers of frames; those outside the file are left out.
        """
        frame = self._width * self._channels
        first, last = max(0, start), max(0, start, min(stop, self.length))
        raw = self._data[first * frame : last * frame]
        values = self._values(raw).reshape(-1, self._channels)
        if self._channels == 1:
            return np.ascontiguousarray(values[:, 0], np.float32)
        return np.asarray(values.mean(axis=1, dtype=np.float64), np.float32)

    def _values(self, raw: memoryview) -> Array:
        width = self._width
        if self._kind in (A_LAW, MU_LAW):
            return np.asarray(_law(self._kind)[np.frombuffer(raw, np.uint8)])
        if self._kind == FLOAT:
            return np.asarray(np.frombuffer(raw, f"{self._order}f{width}"))
        if width == 1:
            return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
        if width == 3:
            # The three upper bytes of an integer of four.
            upper = slice(1, 4) if self._order == "<" else slice(0, 3)
            wide = np.zeros((len(raw) // 3, 4), np.uint8)
            wide[:, upper] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
            return wide.view(f"{self._order}i4")[:, 0].astype(np.float32) / np.float32(2**31)
        integers = np.frombuffer(raw, f"{self._order}i{width}")
        return integers.astype(np.float32) / np.float32(2 ** (8 * width - 1))


def open_wave(data: bytes) -> WaveFile:
    """Reads the header of a WAV file.

    If the program that wrote the file could not complete its sizes, because it wrote to a pipe or
    was stopped, the samples end where the file ends.

    Raises:
        DataError: if the bytes are no WAV file, are cut off, or hold compressed samples.
    """
    view = memoryview(data)
    magic = bytes(view[:4])
    if magic not in (b"RIFF", b"RIFX", b"RF64", b"BW64") or bytes(view[8:12]) != b"WAVE":
        raise DataError(_other(data))
    order = ">" if magic == b"RIFX" else "<"
    claimed = _number(view, 4, order)
    form = b""
    long_size = 0
    chunk = 12  # where a chunk begins: its name and size, four bytes each, then its body
    while chunk + 8 <= len(view):
        name = bytes(view[chunk : chunk + 4])
        size = _number(view, chunk + 4, order)
        body = chunk + 8
        if name == b"data":
            size = _size_of_data(view, body, size, claimed, long_size)
            return _wave_file(form, view[body : body + size], order)
        if body + size > len(view):
            raise DataError(
                f"must be a valid WAV file, but its chunk {name!r} has {len(view) - body} of "
                f"{size} bytes"
            )
        if name == b"fmt " and not form:
            form = bytes(view[body : body + size])
        elif name == b"ds64" and size >= 16:
            (long_size,) = struct.unpack("<Q", view[body + 8 : body + 16])
        chunk = body + size + size % 2
    raise DataError("must be a valid WAV file, but has no chunk of samples")


def _number(view: memoryview, first: int, order: str) -> int:
    """Returns the number in the four bytes from `first` on."""
    return int.from_bytes(view[first : first + 4], "big" if order == ">" else "little")


def _size_of_data(view: memoryview, body: int, size: int, claimed: int, long_size: int) -> int:
    """Returns how many bytes the samples have; to the end of the file if the header is silent."""
    rest = len(view) - body
    if long_size and size == 0xFFFFFFFF:
        size = long_size
    elif size >= UNKNOWN_SIZE or (size == 0 and not body < claimed + 8 <= len(view)):
        return rest  # the header was never completed
    if size > rest:
        raise DataError(
            f"must have {size} bytes of samples, as its header says, but has {rest}: the file is "
            "cut off"
        )
    return size


def _wave_file(form: bytes, data: memoryview, order: str) -> WaveFile:
    """Returns the samples of a file by its format chunk."""
    if len(form) < 16:
        raise DataError("must be a valid WAV file, but has no format before its samples")
    kind, channels, rate, _, align, bits = struct.unpack(f"{order}HHIIHH", form[:16])
    if kind == EXTENSIBLE and len(form) >= 40:
        (kind,) = struct.unpack(f"{order}H", form[24:26])
        if order == "<" and form[26:40] != SUB_FORMAT:
            raise DataError(
                f"must have samples of integers or floats, but has those of {form[24:40].hex()}. "
                f"{CONVERT}"
            )
    if not 0 < rate <= MAX_RATE:
        raise DataError(f"must have 1 to {MAX_RATE} samples per second, but has {rate}")
    if not 0 < channels <= MAX_CHANNELS:
        raise DataError(f"must have 1 to {MAX_CHANNELS} channels, but has {channels}")
    width = (bits + 7) // 8
    fits = {PCM: (1, 2, 3, 4), FLOAT: (4, 8), A_LAW: (1,), MU_LAW: (1,)}
    if kind not in fits:
        name = COMPRESSED.get(kind, f"format {kind:#06x}")
        raise DataError(
            f"must have samples of integers, floats, A-law or µ-law, but has {name}. {CONVERT}"
        )
    if width not in fits[kind] or align not in (0, width * channels):
        raise DataError(
            f"must have samples of 8 to 32 bits, or floats of 32 or 64, but has {bits} bits and "
            f"{channels} channels in {align} bytes. {CONVERT}"
        )
    length = len(data) // (width * channels)
    if not length:
        raise DataError("must have samples, but has none: the recording is empty")
    return WaveFile(
        rate, length, _data=data, _channels=channels, _kind=kind, _width=width, _order=order
    )


def _other(data: bytes) -> str:
    """Returns what is wrong with bytes that are no WAV file."""
    kinds = [kind for start, kind in OTHERS.items() if data.startswith(start)]
    if data[4:8] == b"ftyp":
        kinds = ["MPEG-4 (m4a)"]
    if kinds:
        return f"must be a WAV file, but is {kinds[0]}. {CONVERT}"
    if not data:
        return "must be a valid WAV file, but is empty"
    return f"must be a valid WAV file, but begins with {data[:4]!r}"


@cache
def _law(kind: int) -> Array:
    """Returns the values of the 256 bytes of A-law or µ-law, −1 … 1.

    A byte has a sign (0x80), a segment (0x70) and a step in the segment (0x0F), as in ITU-T G.711;
    µ-law has inverted bits and the bias 0x84, A-law has every other bit inverted.
    """
    code = np.arange(256)
    if kind == MU_LAW:
        code = ~code & 0xFF
        size = (((code & 0x0F) << 3) + 0x84 << ((code & 0x70) >> 4)) - 0x84
        values = np.where(code & 0x80, -size, size)
    else:
        code = code ^ 0x55
        segment = (code & 0x70) >> 4
        size = ((code & 0x0F) << 4) + np.where(segment, 0x108, 8) << np.maximum(segment - 1, 0)
        values = np.where(code & 0x80, size, -size)
    return (values / 32768).astype(np.float32)
