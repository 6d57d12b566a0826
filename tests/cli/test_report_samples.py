"""Samples in a report: values, rows of tables, photos with the names of their files; no folders."""

import base64
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.charts import scale_of
from support.onnx_networks import convolutions
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.runs.run import Run
from odt.runs.shared_text import file_name, without_folders

CITIES = ["Aachen", "Bonn"]


def run(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def trained(folder: Path, source: Path, *words: object, options: tuple[object, ...] = ()) -> str:
    """Makes data, trains with a run folder, and returns the report."""
    run("gen-datafile", "--source", source, *words, "--out-dir", folder / "data",
        "--split", "train=0.5", "--split", "test=0.5", "--seed", 1)  # fmt: skip
    data = folder / "data"
    run(
        "new", "mlp", "--like", data / "train.input.bin", "--hidden", 8, "-o", folder / "new.tflite"
    )
    files = ["--load-input", data / "train.input.bin", "--load-expected", data / "train.output.bin"]
    test = ["--validation-input", data / "test.input.bin"]
    test += ["--validation-expected", data / "test.output.bin"]
    run("train", folder / "new.tflite", *files, *test, *options, "--epochs", 5,
        "--run-dir", folder / "run")  # fmt: skip
    run("report", folder / "run", "--wrong", 6)
    return (folder / "run" / "report.html").read_text(encoding="utf-8")


def table_of(text: str, name: str) -> list[list[str]]:
    """Rows of a table by its id."""
    content = text.partition(f'<table id="{name}">')[2].partition("</table>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", content)
    return [[unescape(c) for c in re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", r)] for r in rows]


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with two targets and a column of words, and its report."""
    folder = tmp_path_factory.mktemp("houses")
    rng = np.random.default_rng(3)
    lines = ["size,city,rooms,price,days"]
    for _ in range(60):
        size, rooms, city = rng.uniform(30, 180), rng.integers(1, 6), rng.choice(CITIES)
        price = 2 * size + 10 * rooms + 30 * (city == "Bonn") + rng.normal(0, 5)
        lines.append(f"{size:.2f},{city},{rooms},{price:.2f},{size / 5 + rng.normal():.2f}")
    (folder / "houses.csv").write_text("\n".join(lines) + "\n")
    words = ("--label-column", "price,days", "--one-hot", "city", "--regression")
    text = trained(folder, folder / "houses.csv", *words, "--scale", "standardize",
                   options=("--loss", "mse", "--learning-rate", 0.05))  # fmt: skip
    return folder, text


def test_values_are_shown_by_target(houses: tuple[Path, str]) -> None:
    """Figures by their formulas, and points read back by the numbers at the axes."""
    folder, text = houses
    x = np.fromfile(folder / "data/test.input.bin", "<f4").reshape(30, -1)
    true = np.fromfile(folder / "data/test.output.bin", "<f4").reshape(30, 2).astype(float)
    y = odt.predict(folder / "run/model.tflite", x).astype(float)
    heads, *rows = table_of(text, "targets")
    assert heads[:3] == ["target", "R²", "mean absolute error"]
    for k, (name, row) in enumerate(zip(("price", "days"), rows, strict=True)):
        error = y[:, k] - true[:, k]
        r2 = 1 - (error @ error) / ((true[:, k] - true[:, k].mean()) ** 2).sum()
        figures = r2, np.abs(error).mean(), np.sqrt((error**2).mean()), np.abs(error).max()
        assert row[0] == name
        assert [float(cell) for cell in row[1:]] == pytest.approx(figures, rel=1e-4, abs=1e-4)
        for label, a, b in (
            ("predicted by true", true[:, k], y[:, k]),
            ("residual: predicted − true by predicted", y[:, k], error),
        ):
            picture = text.partition(f'aria-label="{name}: {label}"')[2].partition("</svg>")[0]
            sx, sy = scale_of(picture)
            points = re.findall(r'<circle [^>]*cx="([-\d.]+)" cy="([-\d.]+)"', picture)
            shown = np.array([(sx(float(px)), sy(float(py))) for px, py in points])
            assert shown[:, 0] == pytest.approx(a, abs=0.01 * np.ptp(a))
            assert shown[:, 1] == pytest.approx(b, abs=0.01 * np.ptp(b) + 0.01)


def test_rows_of_a_table_have_their_columns(houses: tuple[Path, str]) -> None:
    """In the units of the table, the largest loss first, with targets and outputs."""
    folder, text = houses
    heads, *rows = table_of(text, "rows")
    values = [f"{name}: {word}" for name in ("price", "days") for word in ("target", "output")]
    assert heads == ["sample", *values, "loss", "size", "city", "rooms"]
    table = [line.split(",") for line in (folder / "houses.csv").read_text().splitlines()[1:]]
    by_price = {float(line[3]): line for line in table}
    losses = []
    for row in rows:
        size, city, rooms, price, days = by_price[round(float(row[1]), 2)]
        assert float(row[6]) == pytest.approx(float(size), rel=1e-4)
        assert row[7] == city
        assert float(row[8]) == pytest.approx(float(rooms), rel=1e-4)
        assert float(row[3]) == pytest.approx(float(days), rel=1e-4)
        errors = float(row[2]) - float(price), float(row[4]) - float(days)
        assert float(row[5]) == pytest.approx(np.mean(np.square(errors)), rel=1e-3)
        losses.append(float(row[5]))
    assert len(rows) == 6
    assert losses == sorted(losses, reverse=True)
    assert "<figure" not in text


def test_rows_of_classes_have_their_columns(tmp_path: Path) -> None:
    """Also without standardization."""
    rng = np.random.default_rng(4)
    lines = ["width,height,kind"]
    for k in range(40):
        lines.append(f"{rng.normal(k % 2, 2):.3f},{rng.normal(5, 1):.3f},{'ab'[k % 2]}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    heads, *rows = table_of(trained(tmp_path, tmp_path / "t.csv"), "rows")
    assert heads == ["sample", "true", "predicted", "probability", "loss", "width", "height"]
    assert rows
    for row in rows:
        assert f"{float(row[5]):.3f},{float(row[6]):.3f},{row[1]}" in lines
        assert row[1] != row[2]


def test_photos_have_the_names_of_their_files(tmp_path: Path) -> None:
    """Wrong and right ones: each picture is that of the file below it."""
    rng = np.random.default_rng(5)
    for name in ("day", "night"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(12):
            pixels = rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"photo <{k}>.png")
    text = trained(tmp_path, tmp_path / "photos", "--scale", "0..1")
    sidecar = json.loads((tmp_path / "data/test.input.bin.json").read_text())
    assert len({*sidecar["sample files"]}) == sidecar["samples"] == 12
    assert "sample files" not in json.loads((tmp_path / "data/test.output.bin.json").read_text())
    tiles = re.findall(r"<figure.*?</figure>", text)
    parts = text.partition("Samples predicted right: ")
    assert parts[2]
    assert parts[0].count("<figure") > 0
    assert parts[2].count("<figure") > 0
    for tile in tiles:
        code = re.search(r'base64,([^"]*)"', tile)
        label = re.search(r"source <b>([^<]*)</b>", tile)
        true, predicted = re.findall(r"(?:true|predicted) <b>([^<]*)</b>", tile)
        assert code is not None
        assert label is not None
        file = tmp_path / "photos" / unescape(label[1])
        with Image.open(io.BytesIO(base64.b64decode(code[1]))) as a, Image.open(file) as b:
            shown, pixels = np.asarray(a).astype(float), np.asarray(b).astype(float)
        pixels = (pixels - pixels.min()) / np.ptp(pixels) * 255
        assert np.abs(shown - pixels).max() <= 1
        assert file.parent.name == true
        assert (true == predicted) == (tile in parts[2])


def test_a_report_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    """Also not one with spaces, and not in warnings."""
    folder = tmp_path / "my <secret> folder"
    folder.mkdir()
    for name in ("model.circle", "input.bin", "expected.bin"):
        (folder / name).write_bytes((MLP_SM / name).read_bytes())
    words = ["--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin"]
    words += ["--validation-split", 0.25, "--epochs", 1, "--export-circle", folder / "out.circle"]
    run("train", folder / "model.circle", *words, "--run-dir", folder / "first")
    (folder / "first/warnings.txt").write_text(f"Warning: {folder}/input.bin has changed.\n")
    run("report", folder / "first")
    text = (folder / "first/report.html").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "secret" not in text
    assert 'load-input = "input.bin"' in unescape(text)
    assert "Warning: input.bin has changed." in text
    assert "<td>input.bin, " in text


def test_paths_lose_their_folders() -> None:
    bare = Run(Path("runs/x"), {"model": "C:\\my models\\a.tflite"}, {}, [])
    for text, shown in {
        "/home/me/data/a.bin: too short": "a.bin: too short",
        'x = "/home/me/a.bin"': 'x = "a.bin"',
        "(/tmp/x/a.csv, /tmp/x/b.csv)": "(a.csv, b.csv)",
        "C:\\Users\\me\\a.bin has changed": "a.bin has changed",
        "model = 'C:\\my models\\a.tflite'": "model = 'a.tflite'",
        'model = "C:\\\\my models\\\\a.tflite"': 'model = "a.tflite"',
        "data/train/a.bin": "data/train/a.bin",
        "metal/glass, 3 img/s, 1/2": "metal/glass, 3 img/s, 1/2",
        "https://example.org/a/b": "https://example.org/a/b",
        "scaled to 0 / 255 / x": "scaled to 0 / 255 / x",
    }.items():
        assert without_folders(bare, text) == shown
    assert file_name("C:\\a\\b.bin") == file_name("/a/b.bin") == file_name("b.bin") == "b.bin"
    assert file_name("/a/package/") == "package"


def test_the_report_of_an_onnx_model_has_samples(tmp_path: Path) -> None:
    network = convolutions()
    model = network.file.write(tmp_path / "m.onnx")
    (x,) = network.samples(8)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", odt.predict(model, x))
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    loss = ("--loss", "mean-squared-error", "--epochs", 1)
    run("train", model, *data, *loss, "--run-dir", tmp_path / "run")
    run("report", tmp_path / "run", *data)
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Samples of largest loss" in text
