"""The wake word "Okay Nabu" learns to hear voices in noise, and stays deaf to other words.

pymicro-wakeword, which runs the file in Home Assistant, is the judge. Voices are those of
espeak-ng; no voice and no other word of the test is trained on.
"""

import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.paths import MODELS, TESTS
from support.streaming_models import litert_sequences, predictions
from support.voices import ACCENTS, TESTED, TRAINED, Speech

import odt
from odt.core.formats.reader import read_model
from odt.core.recipe.sequences import with_sequences
from odt.kernels.geometry.quantize import Quantization, quantize
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

WAKE_WORD = MODELS / "okay-nabu-int8.tflite"
PHRASES = tomllib.loads((TESTS / "support" / "phrases.toml").read_text())
CUTOFF, MEAN_OF = 0.85, 5  # from okay_nabu.json of pymicro-wakeword 2.5.0
LENGTH, FRAMES = 54, 3  # time steps that the output depends on, and frames of a time step
NABU = "okay naaboo"
NOISE = 5  # dB
Stream = tuple[Array, int, int]


def spoken(texts: Sequence[Speech]) -> list[Stream]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(Speech.frames, texts))


def judged_speech() -> tuple[list[Speech], list[Speech]]:
    """The wake word by 70 voices in noise; 330 other phrases in noise and without."""
    voices = [f"{accent}+{variant}" for variant in TESTED for accent in ACCENTS]
    wake = [Speech(NABU, voice, NOISE, k) for k, voice in enumerate(voices)]
    others = (*PHRASES["heard"]["words"], *PHRASES["heard"]["alike"])
    assert (len(voices), len(others)) == (70, 330)
    rest = [
        Speech(text, voices[k % len(voices)], noise, k)
        for noise in (NOISE, None)
        for k, text in enumerate(others)
    ]
    return wake, rest


def trained_speech() -> tuple[list[Speech], list[Speech]]:
    """The wake word and other speech, by other voices with noise of 0 to 20 dB."""
    r = random.Random(0)

    def speech(text: str, voice: str, noise: float | None) -> Speech:
        lead, speed, pitch = r.uniform(0.8, 1.8), r.randint(120, 190), r.randint(25, 75)
        return Speech(text, voice, noise, r.randrange(1 << 30), lead, speed, pitch)

    wake = [
        speech(NABU, f"{accent}+{variant}", r.uniform(0, 20))
        for variant in TRAINED
        for accent in r.sample(ACCENTS, 4)
    ]
    rest = []
    for _ in range(2200):
        voice = f"{r.choice(ACCENTS)}+{r.choice(TRAINED)}"
        rest.append(speech(other_words(r), voice, r.choice([None, r.uniform(0, 20)])))
    return wake, rest


def other_words(r: random.Random) -> str:
    """Words, syllables without meaning, and phrases that begin like the wake word."""
    kind, known = r.random(), PHRASES["trained"]
    if kind < 0.4:
        return str(r.choice(known["words"]))
    if kind < 0.7:
        return syllables(r)
    if kind < 0.85:
        return str(r.choice(known["alike"]))
    return f"okay {syllables(r)}" if kind < 0.93 else str(r.choice(known["sentences"]))


def syllables(r: random.Random) -> str:
    known = PHRASES["trained"]["syllables"]
    parts = ("begins", "vowels", "ends")
    return "".join(r.choice(known[p]) for _ in range(r.choice([1, 1, 2, 2, 3])) for p in parts)


def sequences(wake: Sequence[Stream], rest: Sequence[Stream]) -> tuple[Array, Array]:
    """Sequences that end at some time step of a stream: after the wake word, or anywhere else."""
    rng = np.random.default_rng(0)
    x: list[Array] = []
    y: list[float] = []
    for frames, begin, end in wake:
        first, last = begin // FRAMES, end // FRAMES
        for k in rng.choice(np.arange(1, 10), 6, replace=False):
            x.append(window(frames, last + k, rng))
            y.append(1)
        for k in rng.integers(first, max(last - 12, first + 1), 2):
            x.append(window(frames, k, rng))
            y.append(0)
    for frames, begin, end in rest:
        ends = np.arange(begin // FRAMES + 2, min(len(frames) // FRAMES, end // FRAMES + 17))
        for k in rng.choice(ends, min(8, len(ends)), replace=False):
            x.append(window(frames, k, rng))
            y.append(0)
    return np.stack(x), np.array(y, np.float32)[:, np.newaxis]


def window(frames: Array, step: int, rng: np.random.Generator) -> Array:
    """The integers of the time steps up to one; noise from the beginning fills what is missing."""
    found = frames[max(0, (step + 1 - LENGTH) * FRAMES) : (step + 1) * FRAMES]
    before = frames[rng.integers(0, 20, LENGTH * FRAMES - len(found))]
    return integers(np.concatenate([before, found])).reshape(LENGTH, FRAMES, -1)


def integers(frames: Array) -> Array:
    return quantize(frames, input_quantization(), np.dtype(np.int8))


@cache
def input_quantization() -> Quantization:
    model = read_model(WAKE_WORD)
    return model.quantization[model.graph.inputs[0]]


def heard(path: Path, streams: Sequence[Stream]) -> list[bool]:
    """Whether pymicro-wakeword hears the wake word in each stream."""
    from pymicro_wakeword import MicroWakeWord

    micro = {"probability_cutoff": CUTOFF, "sliding_window_size": MEAN_OF}
    config = path.with_suffix(".json")
    config.write_text(json.dumps({"wake_word": NABU, "model": path.name, "micro": micro}))
    word = MicroWakeWord.from_config(config)

    def hears(frames: Array) -> Iterator[bool]:
        word.reset()
        for frame in frames:
            yield bool(word.process_streaming(frame.reshape(1, 1, -1)))

    return [any([*hears(frames)]) for frames, _, _ in streams]


def test_a_wake_word_learns_to_hear_in_noise(tmp_path: Path) -> None:
    """49 of 70 voices are asked for; training takes 15 s on two cores."""
    before, after = tmp_path / "before.tflite", tmp_path / "after.tflite"
    before.write_bytes(WAKE_WORD.read_bytes())
    x, y = sequences(*map(spoken, trained_speech()))
    model = odt.load_model(before, sequence_length=LENGTH)
    schedule = odt.CosineDecay(1e-3)
    trainer = odt.Trainer(model, optimizer="adam", learning_rate=schedule, batch_size=64)
    trainer.fit(x, y, epochs=4, seed=1)
    trainer.export(after)
    assert len(after.read_bytes()) == len(before.read_bytes())

    wake, rest = map(spoken, judged_speech())
    first, now = ([sum(heard(path, s)) for s in (wake, rest)] for path in (before, after))
    print(f"heard {first[0]} of 70 before, {now[0]} after; false {first[1]} before, {now[1]} after")
    assert now[0] >= 49, first
    assert now[1] <= first[1]
    check_runs(after, wake[:8])


def check_runs(path: Path, streams: Sequence[Stream]) -> None:
    """LiteRT computes what odt computes, run by run."""
    count = min(len(frames) for frames, _, _ in streams) // FRAMES
    cut = [integers(frames[: count * FRAMES]) for frames, _, _ in streams]
    inputs = np.stack(cut).reshape(len(streams), count, FRAMES, -1)
    ours = predictions(with_sequences(read_model(path), count, return_sequences=True), inputs) * 256
    assert np.mean(abs(ours - litert_sequences(path, inputs)) > 1) <= 0.001
