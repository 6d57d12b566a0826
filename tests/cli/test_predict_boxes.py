"""`odt predict` of detectors: boxes as text and on pictures, compared with LiteRT's operator."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from support.detectors import SIDE, small_detector
from support.judges import litert

import odt
from odt.cli.main import main
from odt.core.formats.flatbuffer.tflite_metadata import associated_files, read_metadata
from odt.core.formats.reader import read_model
from odt.datasets.boxes.drawing import COLORS
from odt.evaluation.detected import BoxPictures

NAMES = ("plate", "red", "white")  # in the order of their numbers
SIZE = (90, 60)  # width and height of a photo


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words])


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    path = tmp_path / "detector.tflite"
    path.write_bytes(small_detector(3))
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    random = np.random.default_rng(0)
    for name in ("a.png", "more/b.png"):
        pixels = random.integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return folder


def record(photos: Path, fit: str) -> Path:
    """Data of the photos with one box in each; returns the file of inputs."""
    for path in photos.rglob("*.png"):
        path.with_suffix(".xml").write_text(
            f"<annotation><filename>{path.name}</filename><size><width>{SIZE[0]}</width><height>"
            f"{SIZE[1]}</height></size>"
            + "".join(
                f"<object><name>{name}</name><bndbox><xmin>30</xmin><ymin>20</ymin><xmax>60</xmax>"
                "<ymax>40</ymax></bndbox></object>"
                for name in NAMES
            )
            + "</annotation>"
        )
    folder = photos.parent / fit
    words = ["gen-datafile", "--source", photos, "--boxes", photos, "--out-dir", folder]
    result = run(
        *words, "--size", f"{SIDE}x{SIDE}", "--fit", fit, "--scale", "0..1", "--split", "train"
    )
    assert result.exit_code == 0, result.output
    return folder / "train.input.bin"


def best_box(detector: Path, photo: Path, fit: str) -> tuple[float, np.ndarray]:
    """Score and x1, y1, x2, y2 in pixels of LiteRT's best detection."""
    image = Image.open(photo)
    width, height = image.size
    if fit == "stretch":
        x, scale, offset = image.resize((SIDE, SIDE), 2), (width, height), (0.0, 0.0)
    elif fit == "crop":
        edge = (width - height) / 2
        x = image.resize((SIDE, SIDE), 2, (edge, 0, width - edge, height))
        scale, offset = (height, height), (edge, 0.0)
    else:
        rows = round(height * SIDE / width)
        x = Image.new("RGB", (SIDE, SIDE))
        x.paste(image.resize((SIDE, rows), 2), (0, (SIDE - rows) // 2))
        unit = height / rows
        scale, offset = (width, round(SIDE * unit)), (0.0, -((SIDE - rows) // 2) * unit)
    values = np.asarray(x, np.float32)[None] / 255
    boxes, _, scores, _ = litert(detector, [values])
    y1, x1, y2, x2 = boxes[0, 0]
    corners = np.array([x1, y1, x2, y2]) * np.tile(scale, 2) + np.tile(offset, 2)
    return scores[0, 0], np.clip(corners, 0, np.tile(SIZE, 2))


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_the_best_box_is_that_of_litert(
    fit: str, detector: Path, photos: Path, tmp_path: Path
) -> None:
    data = record(photos, fit)
    words = ["predict", detector, "--source", photos, "--as", f"{data}.json", "--top", 1]
    result = run(*words, "--min-score", 0, "--draw", tmp_path / "drawn")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a.png", "more/b.png"]
    for line, name in zip(lines, ("a", "more-b"), strict=True):
        match = re.fullmatch(r"(\S+): (red|white|plate) (\d\.\d{4}) \((.*)\)", line)
        assert match is not None, line
        score, corners = best_box(detector, photos / match[1], fit)
        assert float(match[3]) == pytest.approx(score, abs=1e-3)
        assert list(map(int, match[4].split(", "))) == pytest.approx(corners, abs=1)
        image = Image.open(tmp_path / "drawn" / f"{name}.png")
        zoom = 300 / SIZE[1]
        assert image.size == (450, 300)
        color = COLORS[NAMES.index(match[2])]
        rows, columns = np.nonzero((np.asarray(image) == color).all(axis=2))
        assert columns.max() == pytest.approx(min(corners[2] * zoom, 449), abs=12)
        assert rows.max() == pytest.approx(min(corners[3] * zoom, 299), abs=12)


def test_data_files_are_drawn_by_number(detector: Path, photos: Path, tmp_path: Path) -> None:
    data = record(photos, "stretch")
    words = ["predict", detector, "--load-input", data, "--draw", tmp_path / "drawn"]
    result = run(*words, "--min-score", 0.99)
    assert result.exit_code == 0, result.output
    assert result.stdout == "0: nothing\n1: nothing\n"
    assert sorted(p.name for p in (tmp_path / "drawn").iterdir()) == ["0.png", "1.png"]


def test_one_photo_may_have_a_file(detector: Path, photos: Path, tmp_path: Path) -> None:
    data = record(photos, "stretch")
    words = ["predict", detector, "--as", f"{data}.json", "--draw", tmp_path / "out.jpg"]
    assert run(*words, "--source", photos / "a.png").exit_code == 0
    assert Image.open(tmp_path / "out.jpg").format == "JPEG"
    result = run(*words, "--source", photos)
    assert result.exit_code == 1
    assert "out.jpg: must be a folder for 2 pictures" in result.stderr


def test_pictures_of_photos_of_one_name_differ(
    detector: Path, photos: Path, tmp_path: Path
) -> None:
    data, drawn = record(photos, "stretch"), tmp_path / "drawn"
    Image.new("RGB", SIZE).save(photos / "a.jpg")
    result = run("predict", detector, "--as", f"{data}.json", "--source", photos, "--draw", drawn)
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in drawn.iterdir()) == ["a-2.png", "a.png", "more-b.png"]


def test_photos_are_not_replaced_by_their_pictures(detector: Path, photos: Path) -> None:
    data = record(photos, "stretch")
    Image.new("RGB", SIZE).save(photos / "more" / "a.png")
    old = {path: path.read_bytes() for path in photos.rglob("*.png")}
    words = ["predict", detector, "--as", f"{data}.json", "--min-score", 0]
    for source, folder in ((photos / "a.png", photos), (photos, photos / "more")):
        result = run(*words, "--source", source, "--draw", folder)
        assert result.exit_code == 1
        assert f"{folder}: must be a folder in which no picture replaces a photo" in result.stderr
    assert {path: path.read_bytes() for path in old} == old


def test_slots_without_a_class_are_not_shown(photos: Path, tmp_path: Path) -> None:
    """As in `odt eval`: the record names three of five."""
    path, data = tmp_path / "five.tflite", record(photos, "stretch")
    path.write_bytes(small_detector(5))
    result = run("predict", path, "--as", f"{data}.json", "--source", photos, "--min-score", 0)
    assert result.exit_code == 0, result.output
    shown = re.findall(r"(\w+) \d\.\d{4} \(", result.stdout)
    assert shown
    assert {*shown} <= {*NAMES}


def test_classes_have_the_slots_of_their_names(photos: Path, tmp_path: Path) -> None:
    """The record of the data has them in another order than the model."""
    path, data = tmp_path / "named.tflite", record(photos, "stretch")
    path.write_bytes(small_detector(3, nms_score_threshold=0.001))
    odt.replace_head(path, NAMES[::-1]).save(path)
    of_model = run("predict", path, "--load-input", data, "--min-score", 0)
    of_data = run("predict", path, "--as", f"{data}.json", "--source", photos, "--min-score", 0)
    shown = [re.findall(r"(\w+) \d\.\d{4} \(", result.stdout) for result in (of_model, of_data)]
    assert len({*shown[0]}) == 3
    assert shown[0] == shown[1]


def test_long_pictures_are_not_enlarged_without_limit(tmp_path: Path) -> None:
    pictures = BoxPictures(tmp_path / "long.png", (), ["a"], tmp_path)
    pictures.write(0, np.zeros((2, 2048, 3), np.uint8), np.zeros((0, 6), np.float32))
    assert Image.open(tmp_path / "long.png").size == (4096, 4)


def test_outputs_can_still_be_had(detector: Path, photos: Path, tmp_path: Path) -> None:
    data = record(photos, "stretch")
    path = tmp_path / "outputs.npz"
    assert run("predict", detector, "--load-input", data, "--output", path).exit_code == 0
    with np.load(path) as outputs:
        assert sorted(a.shape for a in outputs.values()) == [(2, 160, 4), (2, 160, 4)]


def test_options_of_boxes_need_a_detector(tmp_path: Path) -> None:
    words = ["new", "mlp", "--input-shape", 4, "--outputs", 3, "-o", tmp_path / "mlp.tflite"]
    assert run(*words).exit_code == 0
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    words = ["predict", tmp_path / "mlp.tflite", "--load-input", tmp_path / "x.npy"]
    for option in (("--draw", tmp_path / "drawn"), ("--min-score", 0.1)):
        result = run(*words, *option)
        assert result.exit_code == 1
        assert "--draw, --min-score: must be given for a detector" in result.stderr
    assert not (tmp_path / "drawn").exists()


def test_eval_draws_true_and_detected_boxes(detector: Path, photos: Path, tmp_path: Path) -> None:
    data = record(photos, "stretch")
    sheet = tmp_path / "sheet.png"
    targets = data.with_name("train.output.bin")
    words = ["eval", detector, "--load-input", data, "--load-expected", targets]
    result = run(*words, "--metric", "map", "--per-class", "--sheet", sheet)
    assert result.exit_code == 0, result.output
    assert f"{sheet}: the first 2 samples with true boxes (dashed)" in result.stdout
    pixels = np.asarray(Image.open(sheet).convert("RGB"))
    # The true box of the class "white", at a third of the first tile of 240 pixels.
    tile = pixels[4:244, 4:244]
    edge = (tile == COLORS[NAMES.index("white")]).all(axis=2)
    assert edge[:, 78:84].any()
    assert edge[158:164].any()


def test_training_keeps_the_labels_of_replace_head(
    detector: Path, photos: Path, tmp_path: Path
) -> None:
    data = record(photos, "stretch")
    mine, trained = tmp_path / "mine.tflite", tmp_path / "trained.tflite"
    assert run("replace-head", detector, "--like", data, "-o", mine).exit_code == 0
    words = ["train", mine, "--load-input", data, "--epochs", 1, "--export-tflite", trained]
    result = run(*words, "--load-expected", data.with_name("train.output.bin"))
    assert result.exit_code == 0, result.output
    model = read_model(str(trained))
    assert associated_files(model) == {"odt-labels.txt": b"plate\nred\nwhite\n"}
    content = read_metadata(model)
    assert content is not None
    outputs = content["subgraph_metadata"][0]["output_tensor_metadata"]
    assert [f["name"] for f in outputs[1]["associated_files"]] == [b"odt-labels.txt"]


def test_the_limit_of_the_file_is_said(photos: Path, tmp_path: Path) -> None:
    """A photo has three boxes, and the file returns two."""
    data = record(photos, "stretch")
    path = tmp_path / "two.tflite"
    path.write_bytes(small_detector(3, max_detections=2))
    assert "returns at most 2 boxes of a sample; --max-detections" in run("check", path).stdout
    words = ["train", path, "--load-input", data, "--epochs", 1]
    words += ["--load-expected", data.with_name("train.output.bin")]
    result = run(*words)
    assert result.exit_code == 0, result.output
    text = f"a photo has 3 boxes, but {path} returns at most 2. --max-detections 3 changes that"
    assert text in result.stderr
    assert text not in run(*words, "--max-detections", 3).stderr
