"""Speech of espeak-ng, and its features as those of microWakeWord."""

import shutil
import subprocess
from functools import cache

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

RATE, FRAME = 16_000, 160  # samples per second and per frame of features
LOUD = 300  # amplitude of speech
FAINT = 5.0  # amplitude of the noise of a quiet room
ACCENTS = (
    *("en", "en-us", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd"),
    "en-029",
)
TESTED = ("f1", "f2", "f3", "f4", "f5", "m1", "m2", "m3", "m4", "m5")
TRAINED = (
    *("Adam", "Alicia", "Andrea", "Andy", "Annie", "antonio", "aunty", "belinda", "benjamin"),
    *("boris", "caleb", "david", "Denis", "Diogo", "ed", "edward", "Gene", "Henrique", "Hugo"),
    *("Jacky", "john", "Lee", "linda", "marcelo", "Marco", "Mario", "max", "Michael", "michel"),
    *("miguel", "Mike", "Nguyen", "pablo", "paul", "pedro", "quincy", "rob", "robert", "sandro"),
    *("shelby", "steph", "travis", "victor", "Zac", "norbert", "iven", "grandma", "grandpa"),
    *("m6", "m7", "m8"),
)


@dataclass(frozen=True, slots=True)
class Speech:
    """What a voice says.

    Attributes:
        text: the words.
        voice: a voice of espeak-ng.
        noise: signal-to-noise ratio of white noise in dB; None for a quiet room.
        seed: random seed of the noise.
        lead: seconds before the speech; a second follows it.
        speed, pitch: options of espeak-ng.
    """

    text: str
    voice: str
    noise: float | None
    seed: int
    lead: float = 1.0
    speed: int = 150
    pitch: int = 50

    def frames(self) -> tuple[Array, int, int]:
        """Returns features (frames, 40), and the first and last frame of the speech."""
        rng, voice = np.random.default_rng(self.seed), self._spoken()
        silence = np.zeros(int(self.lead * RATE))
        power = np.sqrt(np.mean(voice**2))
        noise = FAINT if self.noise is None else power * 10 ** (-self.noise / 20)
        sound = np.concatenate([silence, voice, np.zeros(RATE)])
        sound += noise * rng.normal(size=len(sound))
        begin = len(silence) // FRAME
        return features(sound), begin, (len(silence) + len(voice)) // FRAME

    def _spoken(self) -> Array:
        """Returns the samples of the speech without silence around it."""
        command = [espeak(), "-v", self.voice, "-s", str(self.speed), "-p", str(self.pitch)]
        wave = subprocess.run(
            [*command, "--stdout", self.text], check=True, capture_output=True
        ).stdout
        rate = int.from_bytes(wave[24:28], "little")
        samples = np.frombuffer(wave[44:], "<i2").astype(np.float64)
        loud = np.flatnonzero(abs(resampled := _resampled(samples, rate)) > LOUD)
        return resampled[loud[0] : loud[-1] + 1]


@cache
def espeak() -> str:
    """The path of espeak-ng."""
    path = shutil.which("espeak-ng")
    assert path, "needs the program espeak-ng: apt-get install espeak-ng"
    return path


def _resampled(samples: Array, rate: int) -> Array:
    """Resamples sound to RATE by its Fourier transform."""
    count = len(samples) * RATE // rate
    spectrum, kept = np.fft.rfft(samples), np.zeros(count // 2 + 1, complex)
    size = min(len(kept), len(spectrum))
    kept[:size] = spectrum[:size]
    result: Array = np.fft.irfft(kept, count) * (count / len(samples))
    return result


def features(sound: Array) -> Array:
    """Returns the features (frames, 40) of 16-bit sound."""
    from pymicro_features import MicroFrontend

    data = np.clip(np.round(sound), -32768, 32767).astype("<i2").tobytes()
    front_end, frames, at = MicroFrontend(), [], 0
    while at + 2 * FRAME <= len(data):
        result = front_end.process_samples(data[at : at + 2 * FRAME])
        at += 2 * result.samples_read
        if result.features:
            frames.append(result.features)
    return np.array(frames, np.float32)
