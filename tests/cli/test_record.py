"""The preprocessing record: from the data to the model, and from the model to new data."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import make_models
import numpy as np
import pytest
from click.testing import CliRunner
from support.bounded import answers
from support.datafiles import files, jpeg, made, odt, picture_folder, samples, sidecar, wav

import odt as api
from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model
from odt.core.model.record import Record, record_of
from odt.datasets.picture_files import decode_picture

SIZE = (8, 6)


def network(path: Path, shape: Sequence[int], classes: int, kind: str = "tiny") -> Path:
    """A small model with weights from a seed."""
    words = [kind, str(path), "--input-shape", ",".join(map(str, shape))]
    result = CliRunner().invoke(make_models.main, [*words, "--classes", str(classes)])
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Data files of photos of two classes in tmp_path/data, and a model m.tflite for them."""
    picture_folder(tmp_path / "photos")
    made("--source", tmp_path / "photos", "--scale", "-1..1", "-o", tmp_path / "data")
    network(tmp_path / "m.tflite", (*SIZE, 3), 2)
    return tmp_path


def train(folder: Path, *words: object) -> Path:
    data = folder / "data"
    files = ("--load-input", data / "train.input.bin", "--load-expected", data / "train.output.bin")
    new = folder / "new.tflite"
    result = odt("train", folder / "m.tflite", *files, "--export-tflite", new, *words)
    assert result.exit_code == 0, result.output
    return new


def record_in(path: Path) -> Record | None:
    return read_record(read_model(path))


def test_training_stores_the_record_of_the_data_in_the_model(photos: Path) -> None:
    record = record_in(train(photos, "--epochs", 1))
    assert record is not None
    assert (record.kind, record.classes) == ("image", ("a", "b"))
    assert record.steps == (
        {"step": "color", "to": "rgb"},
        {"step": "resize", "height": 8, "width": 6, "method": "bilinear", "fit": "stretch"},
        {"step": "scale", "to": "-1..1"},
        {"step": "dtype", "dtype": "float32"},
    )


def test_the_former_name_of_a_step_is_read() -> None:
    content = {"kind": "image", "preprocessing": [{"step": "colour", "to": "rgb"}]}
    assert record_of(content) == Record("image", ({"step": "color", "to": "rgb"},))


def test_the_record_can_be_left_out_and_ones_spelling_leaves_it_out(photos: Path) -> None:
    run = photos / "run"
    assert record_in(train(photos, "--no-preprocessing", "--run-dir", run)) is None
    assert record_in(run / "model.tflite") is None
    ones = ("--load_input:raw", photos / "data/train.input.bin", "--batch_size", 4)
    assert record_in(train(photos, *ones)) is None


def test_data_without_a_record_keep_the_models(photos: Path) -> None:
    new = train(photos)
    record = record_in(new)
    for path in (photos / "data").glob("*.json"):
        path.unlink()
    new.replace(photos / "m.tflite")
    assert record_in(train(photos)) == record


def test_the_trainer_exports_it_alike(photos: Path) -> None:
    data = photos / "data"
    with api.Trainer(photos / "m.tflite") as trainer:
        trainer.fit(data / "train.input.bin", data / "train.output.bin")
        trainer.export(photos / "api.tflite")
        trainer.export(photos / "bare.tflite", preprocessing=False)
    record = record_in(photos / "api.tflite")
    assert record is not None
    assert record == record_in(train(photos))
    assert record_in(photos / "bare.tflite") is None
    with api.Trainer(photos / "m.tflite") as trainer:
        trainer.fit(np.zeros((4, *SIZE, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1]])
        trainer.export(photos / "arrays.tflite")
    assert record_in(photos / "arrays.tflite") is None


def predicted(*words: object, stdin: bytes = b"") -> list[str]:
    """Lines that odt predict prints."""
    result = CliRunner().invoke(main, ["predict", *map(str, words)], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def values(line: str) -> list[float]:
    """The numbers of a line, without names."""
    return [float(part.split()[-1]) for part in line.partition(": ")[2].split(", ")]


def as_file(folder: Path, model: Path, name: str = "new") -> list[list[float]]:
    """Sorted outputs for the data file of new data."""
    lines = predicted(model, "--load-input", folder / f"{name}.input.bin", "--top", 2)
    return [values(line) for line in lines]


def test_photos_are_predicted_with_the_exported_file_alone(photos: Path) -> None:
    new = train(photos)
    lines = predicted(new, "--source", photos / "photos/a/3.png")
    assert len(lines) == 1
    assert re.fullmatch(r"3.png: ([ab]) 0\.\d{4}, ([ab]) 0\.\d{4}", lines[0])
    whole = predicted(new, "--source", photos / "photos")
    assert [line.partition(":")[0] for line in whole] == [
        f"{c}/{k}.png" for c in "ab" for k in range(5)
    ]
    assert lines[0].partition(": ")[2] == whole[3].partition(": ")[2]
    made("--source", photos / "photos", "--as", new, "-o", photos / "o")
    assert as_file(photos / "o", new) == [values(line) for line in whole]


def test_new_data_keep_the_order_and_get_the_labels_of_the_record(photos: Path) -> None:
    (photos / "photos/b").rename(photos / "photos/c")
    picture_folder(photos / "more", classes="ba")
    record = photos / "data/train.input.bin.json"
    made("--source", photos / "more", "--as", record, "-o", photos / "o")
    made("--source", photos / "photos", "--as", record, "-o", photos / "p", "--split", "later")
    labels = samples(photos / "o/new.output.bin").argmax(axis=1)
    assert labels.tolist() == [0] * 5 + [1] * 5
    assert files(photos / "p") == ["later.input.bin", "later.input.bin.json"]
    mean = samples(photos / "o/new.input.bin").mean(axis=(1, 2, 3)) * 127.5 + 127.5
    assert np.rint(mean).tolist() == [*range(100, 105), *range(5)]
    said = sidecar(photos / "o/new.input.bin")
    assert said["preprocessing"] == sidecar(photos / "data/train.input.bin")["preprocessing"]


def test_a_folder_is_evaluated_as_its_data_files_are(photos: Path) -> None:
    new = train(photos)
    made("--source", photos / "photos", "--as", new, "-o", photos / "o")
    words = ("--metric", "accuracy")
    by_file = odt("eval", new, "--load-input", photos / "o/new.input.bin",
                  "--load-expected", photos / "o/new.output.bin", *words)  # fmt: skip
    by_folder = odt("eval", new, "--source", photos / "photos", *words)
    assert by_folder.exit_code == 0, by_folder.output
    assert by_folder.stdout == by_file.stdout
    picture_folder(photos / "photos/more", 2, "mz")  # photos of no class of the record
    also = odt("eval", new, "--source", photos / "photos", *words)
    assert also.stdout == by_file.stdout
    left = "left out 4 files in folders that are no class of the record: m, z."
    assert left in also.stderr
    result = made("--source", photos / "photos", "--as", new, "-o", photos / "q")
    assert "no labels, because of 4 files in folders that are no class" in result.stderr
    assert len(samples(photos / "q/new.input.bin")) == 14
    unlabelled = odt("eval", new, "--source", photos / "photos/a")
    assert "must have targets to evaluate" in unlabelled.stderr


def test_evaluated_samples_have_names_of_files_and_classes(photos: Path) -> None:
    new = train(photos)
    table, sheet = photos / "s.csv", photos / "w.png"
    words = ("--per-class", "--wrong", 9, "--sheet", sheet, "--per-sample", table)
    by_folder = odt("eval", new, "--source", photos / "photos", *words)
    assert by_folder.exit_code == 0, by_folder.output
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        path = photos / "photos" / row["source"].split("photos/")[-1]
        assert path.is_file()
        assert path.parent.name == row["true"]
    wrong = [row for row in rows if row["true"] != row["predicted"]]
    assert (f"wrong: {len(wrong)} of {len(rows)} samples" if wrong else "none") in by_folder.stdout
    assert sheet.exists() == bool(wrong)
    made("--source", photos / "photos", "--as", new, "-o", photos / "o")
    for name in ("input", "output"):
        (photos / f"o/new.{name}.bin.json").unlink()
    files = (
        "--load-input",
        photos / "o/new.input.bin",
        "--load-expected",
        photos / "o/new.output.bin",
    )
    named = odt("eval", new, *files, "--per-class").stdout  # by the record in the model
    assert named.splitlines()[1:] == by_folder.stdout.splitlines()[1 : len(named.splitlines())]


def test_uint8_data_give_the_same_record(photos: Path) -> None:
    floats = predicted(train(photos), "--source", photos / "photos")
    made(
        "--source", photos / "photos", "--scale", "-1..1", "--dtype", "uint8", "-o", photos / "data"
    )
    assert predicted(train(photos), "--source", photos / "photos") == floats


@pytest.mark.parametrize("pixel_format", ["rgb24", "bgr24", "jpeg"])
def test_camera_frames_come_on_standard_input(photos: Path, pixel_format: str) -> None:
    new = train(photos)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 20, 3), np.uint8)
    if pixel_format == "jpeg":
        data = [jpeg(frame, "JPEG") for frame in pixels]
        size: tuple[object, ...] = ()
        frames = [decode_picture(frame)[0] for frame in data]
    else:
        data = [(f if pixel_format == "rgb24" else f[..., ::-1]).tobytes() for f in pixels]
        size, frames = ("--frame-size", "20x12"), list(pixels)
    for k, frame in enumerate(frames):
        (photos / f"f{k}.png").write_bytes(jpeg(frame))
    words = (new, "--source", "-", *size, "--pixel-format", pixel_format)
    lines = predicted(*words, stdin=b"".join(data))
    wanted = [predicted(new, "--source", photos / f"f{k}.png")[0] for k in range(3)]
    assert [line.partition(": ")[2] for line in lines] == [w.partition(": ")[2] for w in wanted]
    cut = CliRunner().invoke(main, ["predict", *map(str, words)], input=b"".join(data)[:-5])
    assert cut.exit_code == 1
    assert len(cut.stdout.splitlines()) == 2
    assert cut.stderr.startswith("Error: frame 2: ")


def test_rows_of_a_table_are_standardized_by_the_training_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([10, -5], [3, 0.5], (40, 2))
    lines = [f"{a},{b},{'hot' if a > 10 else 'cold'}" for a, b in rows]
    (tmp_path / "t.csv").write_text("\n".join(["size,weight,kind", *lines]) + "\n")
    made("--source", tmp_path / "t.csv", "--scale", "standardize", "-o", tmp_path / "data")
    network(tmp_path / "m.tflite", (2,), 2, "mlp")
    new = train(tmp_path)
    (tmp_path / "new.csv").write_text("weight,size\n" + "".join(f"{b},{a}\n" for a, b in rows[:3]))
    (tmp_path / "bare.csv").write_text("".join(f"{a},{b}\n" for a, b in rows[:3]))
    made("--source", tmp_path / "new.csv", "--as", new, "-o", tmp_path / "o")
    step = sidecar(tmp_path / "data/train.input.bin")["preprocessing"][0]
    wanted = (rows[:3] - step["mean"]) / step["std"]
    np.testing.assert_allclose(samples(tmp_path / "o/new.input.bin"), wanted, rtol=1e-5)
    named = predicted(new, "--source", tmp_path / "new.csv")
    assert named == predicted(new, "--source", tmp_path / "bare.csv")
    assert re.fullmatch(r"0: (hot|cold) 0\.\d{4}, (hot|cold) 0\.\d{4}", named[0])
    result = odt("eval", new, "--source", tmp_path / "t.csv", "--metric", "accuracy")
    assert result.stdout.startswith("40 samples")
    (tmp_path / "other.csv").write_text("weight,height\n1,2\n3,4\n")
    assert "lacks size" in odt("predict", new, "--source", tmp_path / "other.csv").stderr


def test_sounds_are_predicted_with_the_recorded_bands(tmp_path: Path) -> None:
    for name, hertz in (("high", 2000), ("low", 400)):
        (tmp_path / "s" / name).mkdir(parents=True)
        for k in range(4):
            x = np.sin(2 * np.pi * (hertz + 10 * k) * np.arange(8000) / 8000)
            (tmp_path / f"s/{name}/{k}.wav").write_bytes(wav(x, 8000))
    made("--source", tmp_path / "s", "--rate", 8000, "--mel", 8, "--frames", 8, "--scale",
         "standardize", "-o", tmp_path / "data")  # fmt: skip
    network(tmp_path / "m.tflite", (8, 8), 2, "mlp")
    new = train(tmp_path)
    lines = predicted(new, "--source", tmp_path / "s")
    made("--source", tmp_path / "s", "--as", new, "-o", tmp_path / "o")
    assert as_file(tmp_path / "o", new) == [values(line) for line in lines]
    record = record_in(new)
    assert record is not None
    assert record.sound["high"] == 4000  # half of --rate


def test_errors_say_what_to_give(photos: Path) -> None:
    new, path = train(photos), photos / "photos"
    (photos / "t.csv").write_text("a,b\n1,2\n")
    for words, said in [
        (("predict", photos / "m.tflite", "--source", path), "--as data/train.input.bin.json"),
        (("predict", new), "--data, --load-input or --source: must be given"),
        (("predict", new, "--source", path, "--load-input", new), "without --load-input"),
        (("predict", new, "--as", new, "--load-input", new), "--as: must be given with --source"),
        (("predict", new, "--source", photos / "t.csv"), "must hold data of the kind image"),
        (("predict", new, "--source", photos / "none.jpg"), "none.jpg: not found."),
        (
            ("predict", new, "--source", "-", "--pixel-format", "gray"),
            "--frame-size: must be WIDTH",
        ),
        (("gen-datafile", "--as", new), "--as: must be given with --source"),
        (("gen-datafile", "--as", photos / "m.tflite", "--source", path), "holds no preprocessing"),
        (("gen-datafile", "--as", photos / "t.csv", "--source", path), "must be the JSON file"),
        (
            ("gen-datafile", "--as", new, "--source", path, "--scale", "none"),
            "--scale: must be given",
        ),
    ]:
        result = odt(*words)
        assert result.exit_code == 1, result.output
        assert said in result.stderr


def test_the_scale_of_a_model_is_taken_by_like(photos: Path) -> None:
    new = train(photos)
    result = made("--source", photos / "photos", "--like", new, "-o", photos / "o")
    assert "its metadata give the scale" in result.stderr
    x = samples(photos / "o/train.input.bin")
    assert x.min() == -1
    result = made("--source", photos / "photos", "--like", photos / "m.tflite", "-o", photos / "o")
    assert "does not say the range of its inputs" in result.stderr
    made("--source", photos / "photos", "--like", new, "--dtype", "uint8", "-o", photos / "u")
    assert sidecar(photos / "u/train.input.bin")["scale"] == "-1..1"


@pytest.mark.parametrize(
    "sound",
    [
        {"mel": 8000, "frame": 16000, "hop": 1, "low": 0, "high": 8000},
        {"mel": 10**9, "low": 0, "high": 8000},
        {"mel": 40000, "mfcc": 40000, "low": 0, "high": 8000},
        {"mel": -5, "mfcc": -9},
        {"mel": 8, "frame": 2**62, "low": 0, "high": 8000},
        {"mel": 512, "frame": 8000, "hop": 1, "low": 0, "high": 8000},
        {"mel": 8, "frames": -1, "low": 0, "high": 8000},
        {"mel": 8, "low": float("nan")},
        {"seconds": 1e308},
        {"rate": -1, "mel": 8},
        {"rate": 10**9, "seconds": 0},
        {"rate": 700_000, "seconds": 3000},
        {"rate": 1, "seconds": 0},
        {"rate": 767_999, "seconds": 0},
    ],
    ids=str,
)
def test_a_record_of_sounds_takes_little_time_and_memory(
    sound: dict[str, float], tmp_path: Path
) -> None:
    """A few kB in a model's metadata cannot ask for gigabytes."""
    model = tmp_path / "m.tflite"
    words = ["new", "mlp", "--input-shape", "6", "--outputs", "3", "-o", str(model)]
    assert CliRunner().invoke(main, words).exit_code == 0
    record = Record("sound", sound=sound)
    path = tmp_path / "r.circle"
    export_model(read_model(str(model)), {}, str(path), "circle", None, record=record)
    (tmp_path / "snd").mkdir()
    (tmp_path / "snd" / "a.wav").write_bytes(wav(np.zeros(16000, np.float32)))
    refused = []

    def predict() -> None:
        done = CliRunner().invoke(main, ["predict", str(path), "--source", str(tmp_path / "snd")])
        refused.append(done)

    assert answers(predict)
    assert refused[0].exit_code == 1, refused[0].output
    assert refused[0].stderr.count("\n") == 1
    assert isinstance(refused[0].exception, SystemExit)
