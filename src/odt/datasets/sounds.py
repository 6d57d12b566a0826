"""Reads sound files as samples of one length, as log-mel spectrograms, or as MFCCs.

Log-mel: frames of `frame` samples every `hop`, window 0.54 − 0.46 cos, magnitude of the spectrum,
triangular bands that are equally wide in mel = 1125 ln(1 + f / 700), squared, in dB below the
loudest value of the clip, not below −floor. Source: the recipe of the keyword models of
TensorFlow's and ONE's examples, see docs/preprocessing.md.

MFCC (mel-frequency cepstral coefficients): the clip divided by its largest value, frames with a
Hann window padded to a power of two, magnitude of the spectrum, bands that are triangles over
mel = 1127 ln(1 + f / 700), ln(bands + 1e-6), and the first coefficients of its discrete cosine
transform. Source: MLPerf Tiny's keyword spotting, which computes them with tf.signal.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from odt.core.storage.reading import reading
from odt.datasets.resample import resample, resampled_length
from odt.datasets.sound_files import open_sound
from odt.datasets.source import Remark
from odt.datasets.wave_files import MAX_RATE
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

MAX_SECONDS = 3600
MAX_SAMPLES = 1 << 26  # of a clip whose length is set
MAX_FRAME = 1 << 14  # samples
MAX_BANDS = 512
MAX_VALUES = 1 << 24  # of a clip's spectrogram; of its frames, 64 times as many
BLOCK = 1 << 20  # values of frames that are transformed at a time


@dataclass(frozen=True)  # without slots, in which properties cannot be cached
class Sound:
    """Conversion of sound files to arrays.

    Attributes:
        rate: sample rate in Hz, to which other clips are resampled; 0 keeps that of each clip.
        seconds: length to which clips are cropped or padded with silence; 0 keeps their length.
        mel: number of bands; 0 for the samples themselves, −1 … 1.
        mfcc: number of MFCCs of these bands; 0 for the bands themselves.
        frame, hop: samples in a frame, and distance of the frames in samples.
        frames: maximum number of frames; 0 for all that fit.
        low, high: frequency range of the bands in Hz.
        floor: smallest value, in dB below the loudest one.
    """

    rate: int = 16000
    seconds: float = 1.0
    mel: int = 0
    frame: int = 512
    hop: int = 256
    frames: int = 0
    low: float = 300.0
    high: float = 8000.0
    floor: float = 80.0
    mfcc: int = 0

    def __post_init__(self) -> None:
        if self.mel and not self.rate:
            raise OptionError("rate", "must be above 0 with `mel=`", 0)
        if self.mel and not 0 <= self.low < self.high <= self.rate / 2:
            raise OptionError(
                "mel_range",
                f"must be between 0 and {self.rate / 2:g} Hz, half of `rate={self.rate}`",
                f"{self.low:g} … {self.high:g} Hz",
            )
        if self.mfcc > self.mel:
            rule = "must be at most `mel=`, the number of bands"
            raise OptionError("mfcc", rule, f"{self.mfcc} of {self.mel} bands")
        if not 2 <= self.frame <= MAX_FRAME:  # a window of one sample has no shape
            raise OptionError("frame", f"must be 2 … {MAX_FRAME} samples", self.frame)
        if self.hop < 1:
            raise OptionError("hop", "must be above 0", self.hop)
        if not 0 <= self.mfcc <= self.mel <= MAX_BANDS:
            numbers = f"{self.mel} and {self.mfcc}"
            raise OptionError("mel, mfcc", f"must be from 0 to {MAX_BANDS} bands", numbers)
        if self.frames < 0:
            raise OptionError("frames", "must be 0 or more", self.frames)
        if not 0 <= self.seconds <= MAX_SECONDS:
            raise OptionError("seconds", f"must be 0 … {MAX_SECONDS}", f"{self.seconds:g}")
        if not 0 <= self.rate <= MAX_RATE:
            raise OptionError("rate", f"must be 0 … {MAX_RATE}", self.rate)
        if self.rate * self.seconds > MAX_SAMPLES:
            long = f"{self.rate * self.seconds:.0f}"
            raise OptionError("seconds, rate", f"must give at most {MAX_SAMPLES} samples", long)
        if 0 < self.rate * self.seconds <= 0.5:
            raise OptionError("seconds, rate", "must give at least one sample", "none")

    def decode(self, data: bytes) -> tuple[Array, tuple[Remark, ...]]:
        """Decodes a file to float32 (samples,), (frames, bands) or (frames, MFCCs).

        Returns:
            The values, and what was done to the clip.

        Raises:
            DataError: if the file is damaged.
        """
        file = open_sound(data)
        rate = self.rate or file.rate
        length = resampled_length(file.length, file.rate, rate)
        samples = round(self.seconds * rate) if self.seconds else length
        count = min(samples, length)
        x = np.zeros(samples, np.float32)
        remarks = []
        if rate == file.rate:
            x[:count] = file.read(0, count)
        else:
            x[:count] = resample(file.read, file.length, file.rate, rate, count)
            empty = f", which stays silent above {file.rate / 2:g} Hz" if file.rate < rate else ""
            remarks.append(Remark(f"resampled from {file.rate} to {rate} Hz{empty}"))
        if length > samples:
            cut = f"cut to {self.seconds:g} s, the length of a sample (`seconds=`)"
            remarks.append(Remark(cut, file.length / file.rate))
        frames = 1 + (samples - self.frame) // self.hop
        if self.mel and 0 < self.frames < frames - 1:  # one frame less is rounding
            text = f"cut to the first {self.frames} of {frames} frames (`frames=`)"
            remarks.append(Remark(text))
        if self.mfcc:
            x = self.mfccs(x)
        elif self.mel:
            x = self.log_mel(x)
        return x, tuple(remarks)

    def log_mel(self, x: Array) -> Array:
        """Computes the log-mel spectrogram in dB (frames, bands); the loudest value is 0."""
        frames = self._frames(x)
        window = self._window
        power = self._in_blocks(
            frames, lambda f: (np.abs(np.fft.rfft(f * window, axis=1)) @ self._bands) ** 2
        )
        decibel = 10 * np.log10(np.maximum(power, 1e-10))
        decibel -= decibel.max()
        return np.asarray(np.maximum(decibel, -self.floor), np.float32)

    def mfccs(self, x: Array) -> Array:
        """Computes MFCCs (frames, coefficients)."""
        largest = x.max(initial=0)
        frames = self._frames(x / largest if largest > 0 else x)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.frame) / self.frame)
        size = 1 << (self.frame - 1).bit_length()
        bands = self._bands_in_mel(size)
        angles = np.outer(np.arange(self.mel) + 0.5, np.arange(self.mfcc)) * (np.pi / self.mel)
        cosines = np.cos(angles)

        def cepstrum(block: Array) -> Array:
            spectrum = np.abs(np.fft.rfft(block * window, size, axis=1))
            logs = np.log(spectrum @ bands + 1e-6)
            return np.asarray(logs @ cosines * math.sqrt(2 / self.mel), np.float32)

        return self._in_blocks(frames, cepstrum)

    def _in_blocks(self, frames: Array, transform: Callable[[Array], Array]) -> Array:
        """Transforms frames (frames, samples), as many at a time as have BLOCK values."""
        step = max(1, BLOCK // self.frame)
        blocks = [transform(frames[k : k + step]) for k in range(0, len(frames), step)]
        return np.concatenate(blocks)

    def _frames(self, x: Array) -> Array:
        """Returns the frames of a clip (frames, samples)."""
        if len(x) < self.frame:
            raise DataError(f"must have {self.frame} samples for one frame, but has {len(x)}")
        frames = np.lib.stride_tricks.sliding_window_view(x, self.frame)[:: self.hop]
        frames = frames[: self.frames] if self.frames else frames
        values = len(frames) * max(self.frame >> 6, self.mfcc or self.mel)
        if values > MAX_VALUES:
            raise DataError(
                f"must have at most {MAX_VALUES} values in its spectrogram, but has more: "
                f"{len(frames)} frames of {self.frame} samples. Give `hop=`, or `seconds=`"
            )
        return frames

    def _bands_in_mel(self, size: int) -> Array:
        """Returns the weights of the frequencies in bands that are triangles over mel.

        Args:
            size: samples of the Fourier transform; the weights are (size / 2 + 1, mel).
        """
        hz = np.fft.rfftfreq(size, 1 / self.rate)
        mel = 1127 * np.log1p(hz / 700)[:, None]
        first, last = (1127 * math.log1p(f / 700) for f in (self.low, self.high))
        edges = np.linspace(first, last, self.mel + 2)
        low, middle, high = edges[:-2], edges[1:-1], edges[2:]
        up, down = (mel - low) / (middle - low), (high - mel) / (high - middle)
        bands = np.maximum(0, np.minimum(up, down))
        bands[0] = 0  # the mean of the clip is in no band
        return np.asarray(bands)

    @cached_property
    def _window(self) -> Array:
        """The window function (frame,), 0.08 at both ends."""
        n = np.arange(self.frame)
        return np.asarray(0.54 - 0.46 * np.cos(2 * np.pi * n / (self.frame - 1)))

    @cached_property
    def _bands(self) -> Array:
        """The weights of the frequencies in each band (frame / 2 + 1, mel)."""
        first, last = (1125 * math.log1p(f / 700) for f in (self.low, self.high))
        edges = 700 * np.expm1(np.linspace(first, last, self.mel + 2) / 1125)
        hz = np.fft.rfftfreq(self.frame, 1 / self.rate)[:, None]
        low, middle, high = edges[:-2], edges[1:-1], edges[2:]
        up, down = (hz - low) / (middle - low), (high - hz) / (high - middle)
        return np.asarray(np.maximum(0, np.minimum(up, down)))

    def describe(self) -> dict[str, Any]:
        """Returns the settings that have an effect, as JSON values."""
        names = ["rate", "seconds"]
        if self.mel:
            names += ["mel", "frame", "hop", "frames", "low", "high", "floor"]
        if self.mfcc:
            names += ["mfcc"]
        return {name: getattr(self, name) for name in names}


def parse_sound(settings: Mapping[str, Any]) -> Sound:
    """Returns the conversion that `describe` described.

    Raises:
        DataError: for other settings.
    """
    with reading("", "the preprocessing record must have settings of sounds"):
        defaults = Sound()
        kinds = {name: type(getattr(defaults, name)) for name in settings}
        values = {name: kinds[name](value) for name, value in settings.items()}
        try:
            return Sound(**values)
        except OptionError as e:  # no option is at fault
            raise DataError(
                f"the preprocessing record: {e.field.replace('_', ' ')} {e.rule}, but got {e.got}."
            ) from e
