"""Sounds that libsndfile writes, and photos that libheif writes, beside those libraries."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.datafiles import made, samples

from odt.datasets.wave_files import open_wave
from odt.errors import DataError

pytestmark = pytest.mark.accept
READ = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW")
COMPRESSED = {"IMA_ADPCM": "IMA ADPCM", "MS_ADPCM": "Microsoft ADPCM"}


def needed(name: str) -> Any:
    """A package of the extra `references`."""
    try:
        return __import__(name)
    except ImportError:
        pytest.fail(f"{name}: must be installed, but is not. pip install '.[references]'", False)


@pytest.mark.parametrize("form", ["WAV", "WAVEX", "RF64"])
@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("order", ["FILE", "BIG"])
def test_wave_files_are_read_as_libsndfile_reads_them(form: str, kind: str, order: str) -> None:
    soundfile = needed("soundfile")
    if order == "BIG" and form != "WAV":
        return
    data = io.BytesIO()
    x = np.random.default_rng(0).uniform(-1, 1, (1001, 2))
    soundfile.write(data, x, 44100, format=form, subtype=kind, endian=order)
    wanted, rate = soundfile.read(io.BytesIO(data.getvalue()), dtype="float64")
    file = open_wave(data.getvalue())
    assert (file.rate, file.length) == (rate, 1001)
    assert abs(file.read(0, 1001) - wanted.mean(axis=1)).max() < 1e-7


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_samples_are_named(kind: str) -> None:
    data = io.BytesIO()
    needed("soundfile").write(data, np.zeros(999), 8000, format="WAV", subtype=kind)
    with pytest.raises(DataError, match=f"but has {COMPRESSED[kind]}. Convert it: ffmpeg"):
        open_wave(data.getvalue())


def test_photos_of_iphones(tmp_path: Path) -> None:
    needed("pillow_heif").register_heif_opener()
    for name, value in (("a", 60), ("b", 200)):
        (tmp_path / "s" / name).mkdir(parents=True)
        photo = Image.new("RGB", (64, 48), (value, value, value))
        photo.save(tmp_path / f"s/{name}/1.HEIC", quality=95)
        photo.save(tmp_path / f"s/{name}/2.jpg", format="HEIF", quality=95)
    made("--source", tmp_path / "s", "--scale", "none", "--split", "train=1.0", "--no-shuffle",
         "--no-stratify", "-o", tmp_path / "o")  # fmt: skip
    x = samples(tmp_path / "o/train.input.bin")
    assert x.shape == (4, 48, 64, 3)
    wanted = np.array([60, 60, 200, 200])[:, None, None, None]
    assert abs(x - wanted).max() <= 3
