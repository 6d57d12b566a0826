"""Decodes sound files: WAV by the reader of odt; FLAC, Ogg and MP3 with soundfile."""

import io
from typing import Any

import numpy as np

from odt.core.storage.reading import guard, reading
from odt.dataclass import dataclass
from odt.datasets.file_suffixes import INSTALL_SOUNDS
from odt.datasets.wave_files import MAX_CHANNELS, MAX_RATE, WaveFile, open_wave
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

BLOCK = 1 << 16  # frames that are decoded at a time
# First bytes → name of a format that soundfile reads.
STARTS = {b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3"}


@dataclass(frozen=True, slots=True)
class DecodedSound:
    """The samples of a compressed file.

    Attributes:
        rate: sample rate in Hz.
        samples: float32 (frames,) between −1 and 1, averaged over channels.
    """

    rate: int
    samples: Array

    @property
    def length(self) -> int:
        """Number of frames."""
        return len(self.samples)

    def read(self, start: int, stop: int) -> Array:
        """Returns frames by number; those outside the file are left out."""
        return self.samples[max(0, start) : max(0, start, stop)]


def open_sound(data: bytes) -> WaveFile | DecodedSound:
    """Reads a sound file.

    Raises:
        DataError: if the bytes are no sound that can be read, or the package that reads them is
            missing.
    """
    kind = _compressed(data)
    if not kind:
        return open_wave(data)
    try:
        import soundfile
    except (ImportError, OSError) as e:  # OSError: without the library that it binds
        remedy = f"must be read with soundfile, because it is {kind}: {INSTALL_SOUNDS}"
        raise DataError(remedy) from e
    with reading("", f"must be a valid {kind} file"), soundfile.SoundFile(io.BytesIO(data)) as file:
        if not 0 < file.samplerate <= MAX_RATE or not 0 < file.channels <= MAX_CHANNELS:
            raise ValueError(f"{file.samplerate} samples per second and {file.channels} channels")
        return DecodedSound(file.samplerate, _decode(file, len(data)))


def _compressed(data: bytes) -> str:
    """Returns the format of a file that is compressed; empty for WAV, and what odt cannot read."""
    for start, kind in STARTS.items():
        if data.startswith(start):
            return kind
    # The header of a frame of MPEG: 11 ones, a version that is not reserved, and layer III.
    is_mpeg = len(data) > 1 and data[0] == 0xFF and data[1] >> 5 == 0b111
    return "MP3" if is_mpeg and data[1] & 0x18 != 0x08 and data[1] & 0x06 == 0x02 else ""


def _decode(file: Any, packed: int) -> Array:
    """Decodes all frames; what the header says of their number need not be true.

    Args:
        file: a file of soundfile.
        packed: its bytes.
    """
    blocks = []
    frames = 0
    while len(values := file.read(BLOCK, dtype="float32", always_2d=True)):
        blocks.append(values.mean(axis=1, dtype=np.float64).astype(np.float32))
        frames += len(values)
        guard("", packed, frames * values.shape[1] * values.itemsize)
    if not blocks:
        raise DataError("must have samples, but has none: the recording is empty")
    return np.concatenate(blocks)
