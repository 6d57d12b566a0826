"""FLAC, Ogg and MP3, written by libsndfile."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support.datafiles import made, refused, samples

from odt.datasets.sound_files import open_sound
from odt.datasets.sounds import Sound
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

RATE = 16000
# Format and subtype of libsndfile, and the largest error of a tone, which FLAC only rounds.
KINDS = {
    "flac": ("FLAC", "PCM_16", 2**-15),
    "ogg": ("OGG", "VORBIS", 0.05),
    "opus": ("OGG", "OPUS", 0.05),
    "mp3": ("MP3", "MPEG_LAYER_III", 0.05),
}


def tone(frames: int = RATE) -> Array:
    """A tone whose channels have a mean of 0.5 sin."""
    sine = np.sin(2 * np.pi * 500 * np.arange(frames) / RATE)
    return np.stack([0.4 * sine, 0.6 * sine], axis=1).astype(np.float32)


def encoded(kind: str, x: Array, rate: int = RATE) -> bytes:
    form, subtype, _ = KINDS[kind]
    file = io.BytesIO()
    soundfile.write(file, x, rate, format=form, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_that_were_written(kind: str) -> None:
    x = tone()
    file = open_sound(encoded(kind, x))
    assert file.rate == RATE
    near = KINDS[kind][2]
    assert abs(file.length - RATE) <= (0 if kind == "flac" else 2304)  # two frames of MP3
    middle = slice(2000, 14000)
    error = file.read(0, file.length)[middle] - x.mean(axis=1)[middle]
    assert np.abs(error).max() <= near
    assert np.array_equal(file.read(100, 200), file.read(0, 300)[100:200])
    assert len(file.read(-5, 3)) == 3
    assert len(file.read(file.length - 2, file.length + 9)) == 2


def test_folders_of_all_kinds_are_read(tmp_path: Path) -> None:
    (tmp_path / "s/a").mkdir(parents=True)
    for kind in KINDS:
        (tmp_path / f"s/a/{kind}.{kind.upper()}").write_bytes(encoded(kind, tone()))
    soundfile.write(tmp_path / "s/a/wave.wav", tone(), RATE)
    options = ("--split", "train=1.0", "--no-shuffle", "--no-stratify", "--scale", "none")
    result = made("--source", tmp_path / "s", *options, "-o", tmp_path / "o")
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape == (5, RATE)
    assert abs(x - tone().mean(axis=1))[:, 2000:14000].max() < 0.05
    assert "left out" not in result.stderr
    (tmp_path / "s/a/bad.mp3").write_bytes(b"ID3" + bytes(99))
    line = refused("--source", tmp_path / "s", *options, "-o", tmp_path / "p")
    assert "bad.mp3: must be a valid MP3 file, but got" in line


def test_clips_are_resampled_and_cut() -> None:
    x, remarks = Sound(rate=8000, seconds=0.5).decode(encoded("flac", tone()))
    assert x.shape == (4000,)
    assert [remark.text[:9] for remark in remarks] == ["resampled", "cut to 0."]


def test_headers_are_not_believed() -> None:
    """The number of frames in a header of FLAC, which has 36 bits, is not what is decoded."""
    data = bytearray(encoded("flac", tone()))
    for frames in (0, 3, 2**36 - 1):
        data[21] = data[21] & 0xF0 | frames >> 32
        data[22:26] = (frames & 0xFFFFFFFF).to_bytes(4, "big")
        try:
            assert open_sound(bytes(data)).length <= RATE
        except DataError as e:
            assert len(str(e)) < 300  # noqa: PT017


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odt.core.storage.reading.BOMB_BYTES", 1 << 20)
    data = encoded("flac", np.zeros((1_000_000, 2), np.float32))
    with pytest.raises(DataError, match="must not unpack to more than 200 times its size"):
        open_sound(data)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_end_in_an_error_or_in_samples(kind: str) -> None:
    random = np.random.default_rng(0)
    good = encoded(kind, tone(4000))
    for _ in range(100):
        data = bytearray(good[: int(random.integers(len(good) + 1))])
        for at in random.integers(0, len(good), 3):
            if at < len(data):
                data[at] = random.integers(256)
        try:
            file = open_sound(bytes(data))
            assert len(file.read(0, file.length)) == file.length > 0
        except DataError as e:
            assert len(str(e)) < 300  # noqa: PT017
