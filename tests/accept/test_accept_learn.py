"""odt learn as a newcomer runs it: accuracy, time and memory on photos, sounds and tables."""

import csv
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.accept_data import complete
from support.datafiles import wav
from support.paths import ROOT

from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

SECONDS, MEGABYTES = 15, 150  # processor time and memory of each run
SEEDS = range(5)
DISTRICTS = ("north", "south", "west")
COLUMNS = ("id", "description", "district", "built", "size", "age", "currency", "zero", "price")
# The command, and its largest memory; the usage of a child counts this process, too.
PROGRAM = """
import atexit, pathlib
from odt.cli.main import main
atexit.register(lambda: print(pathlib.Path("/proc/self/status").read_text()))
main(prog_name="odt")
"""
TABLES = ("diabetes", "penguins", "cars")
MISSING = "{} is not installed. Install it: pip install -e '.[references]'"
RNG = np.random.default_rng(0)


def learn(source: Path, out: Path, *options: object) -> tuple[float, float]:
    """Runs odt learn; returns the figure of the float and of the int8 model on held-back samples.

    Processor time, which other processes do not lengthen, and memory are those of the process.
    """
    command = [sys.executable, "-c", PROGRAM, "learn", source, "-o", out, *options]
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen([*map(str, command)], stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        printed.seek(0)
        text = printed.read()
    assert status == 0, text
    seconds = usage.ru_utime + usage.ru_stime
    used = int(text.rpartition("VmHWM:")[2].split()[0]) / 1000
    assert seconds <= SECONDS, f"{source.name}: {seconds:.1f} s"
    assert used <= MEGABYTES, f"{source.name}: {used:.0f} MB"
    results = [line for line in text.splitlines() if line.endswith(" samples")]
    values = [float(line.rsplit(" on ", 1)[0].rsplit(" ", 1)[1]) for line in results]
    assert len(values) == 2, text
    assert (out / "report.html").exists()
    print(f"{source.name} {options}: {values} after {seconds:.1f} s in {used:.0f} MB")
    return values[0], values[1]


def means(source: Path, folder: Path, *options: object) -> tuple[float, float]:
    """Returns the mean figures of the seeds."""
    runs = [learn(source, folder / f"{k}", "--seed", k, *options) for k in SEEDS]
    exact, quantized = zip(*runs, strict=True)
    return statistics.mean(exact), statistics.mean(quantized)


def test_four_classes_of_photos(tmp_path: Path) -> None:
    photos = complete("data", "photos", "trashnet-4class")
    assert photos.is_dir(), f"{photos}: give the folder of the complete data: DATA=…"
    exact, quantized = means(photos, tmp_path)
    assert exact >= 0.8
    assert quantized >= exact - 0.01


def test_two_words(tmp_path: Path) -> None:
    sounds = complete("data", "audio", "speech-commands-yes-no-wav.zip")
    assert sounds.is_file(), f"{sounds}: give the folder of the complete data: DATA=…"
    exact, quantized = means(sounds, tmp_path)
    assert exact >= 0.9
    assert quantized >= exact - 0.01


def table_of(name: str, folder: Path) -> tuple[Path, str]:
    """Returns the path of a table of real measurements, and the column to predict.

    Diabetes patients of Efron et al., Least Angle Regression (2004), in scikit-learn; penguins
    (CC0) in examples/data; cars of the 1983 ASA Data Exposition (CC0) in bokeh-sampledata.
    """
    if name == "penguins":
        return ROOT / "examples" / "data" / "penguins.csv", "body_mass_g"
    if name == "cars":
        package = importlib.util.find_spec("bokeh_sampledata")
        assert package is not None, MISSING.format("bokeh-sampledata")
        assert package.origin is not None
        return Path(package.origin).with_name("_data") / "auto-mpg.csv", "mpg"
    from sklearn import datasets

    x, y = datasets.load_diabetes(return_X_y=True)
    path = folder / f"{name}.csv"
    head = ",".join([*(f"x{k}" for k in range(x.shape[1])), "target"])
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=head, comments="")
    return path, "target"


def test_tables_beside_gradient_boosting(tmp_path: Path) -> None:
    """R² of both on the same rows is within 0.02 on two of three tables."""
    try:
        from sklearn import ensemble
    except ImportError:
        pytest.fail(MISSING.format("scikit-learn"))
    close = []
    for name in TABLES:
        path, target = table_of(name, tmp_path)
        pairs = []
        for seed in SEEDS:
            out = tmp_path / name / str(seed)
            ours, _ = learn(path, out, "--target", target, "--seed", seed)
            files = out / "data"
            parts = {p: rows_of(files, p) for p in ("train", "validation", "test")}
            judge = ensemble.GradientBoostingRegressor(random_state=0)
            fitted = [np.concatenate([parts["train"][k], parts["validation"][k]]) for k in (0, 1)]
            judge.fit(*fitted)
            pairs.append((ours, judge.score(*parts["test"])))
        ours, theirs = (statistics.mean(values) for values in zip(*pairs, strict=True))
        print(f"{name}: R² {ours:.3f}, gradient boosting {theirs:.3f}")
        close.append(ours >= theirs - 0.02)
    assert sum(close) >= 2


def rows_of(files: Path, part: str) -> tuple[Array, Array]:
    y = np.fromfile(files / f"{part}.output.bin", np.float32)
    return np.fromfile(files / f"{part}.input.bin", np.float32).reshape(len(y), -1), y


def photos_of(folder: Path, counts: Mapping[str, int], mode: str = "RGB") -> Path:
    """Writes photos of stripes, whose direction and width tell the class, with noise."""
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        angle, width = number % 4 * np.pi / 4, 6 + 6 * (number // 4)
        row, column = np.mgrid[:96, :96]
        for k in range(count):
            phase = RNG.uniform(0, 2 * np.pi)
            wave = np.sin(
                (row * np.sin(angle) + column * np.cos(angle)) * 2 * np.pi / width + phase
            )
            pixels = np.clip(128 + 80 * wave + RNG.normal(0, 20, (96, 96)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(folder / name / f"{k}.png")
    return folder


@pytest.mark.parametrize(
    ("counts", "mode", "least"),
    [
        ({"few": 8, "more": 8}, "RGB", 0.99),
        ({f"class {k}": 15 for k in range(12)}, "RGB", 0.85),
        ({"a": 40, "b": 40}, "L", 0.95),
        ({"rare": 12, "usual": 90}, "RGB", 0.95),
        ({"a": 20, "b": 20, "c": 20}, "RGBA", 0.95),
    ],
    ids=["few", "twelve classes", "gray", "unequal", "transparent"],
)
def test_unusual_folders_of_photos(
    counts: Mapping[str, int], mode: str, least: float, tmp_path: Path
) -> None:
    exact, quantized = learn(photos_of(tmp_path / "photos", counts, mode), tmp_path / "out")
    assert exact >= least
    assert quantized >= exact - 0.05
    train = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())["train"]
    assert ("class-weight" in train) == ("rare" in counts)


def test_long_sounds_at_another_rate(tmp_path: Path) -> None:
    """Tones of three seconds at 44,100 samples per second."""
    for name, pitch in {"low": 300, "high": 2400}.items():
        (tmp_path / "sounds" / name).mkdir(parents=True)
        for k in range(40):
            time_axis = np.arange(3 * 44100) / 44100
            tone = np.sin(2 * np.pi * pitch * RNG.uniform(0.9, 1.1) * time_axis)
            sound = 0.3 * tone + RNG.normal(0, 0.02, len(tone))
            (tmp_path / "sounds" / name / f"{k}.wav").write_bytes(wav(sound, 44100))
    assert learn(tmp_path / "sounds", tmp_path / "out")[0] >= 0.95


def test_an_unusual_table(tmp_path: Path) -> None:
    """Row numbers, words, dates, gaps, free text and a constant; the target follows from four."""
    rows = []
    for k in range(500):
        size, age, district = RNG.uniform(30, 150), RNG.integers(0, 60), RNG.integers(3)
        price = 3000 * size * (1 + 0.3 * district) - 2000 * age + RNG.normal(0, 9000)
        rows.append([
            k + 1, f"Flat no. {RNG.integers(1 << 30)}", DISTRICTS[district],
            f"20{k % 20 + 10}-{k % 12 + 1:02}-01", "" if k % 17 == 0 else f"{size:.1f}", age, "EUR",
            0, f"{price:.0f}",
        ])  # fmt: skip
    path = tmp_path / "flats.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    exact, quantized = learn(path, tmp_path / "out")
    assert exact >= 0.9
    assert quantized >= exact - 0.02
    data = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())["gen-datafile"]
    assert {*data["leave-out"]} == {"id", "description"}
