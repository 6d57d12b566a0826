"""odt personalize: folders of new classes, lines that it prints, files that it refuses."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.datafiles import jpeg

import odt
from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model
from odt.core.model.record import Record
from odt.core.storage.file_lock import FileLock
from odt.core.training.feature_store import read_store

COLORS = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}
STEPS = ({"step": "scale", "to": "0..1"},)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["personalize", *map(str, words)])


def photos(folder: Path, *names: str) -> Path:
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for k in range(10):
            noise = rng.integers(-30, 30, (8, 8, 3))
            picture = np.clip(np.array(COLORS[name]) + noise, 0, 255).astype(np.uint8)
            (folder / name / f"{k}.png").write_bytes(jpeg(picture, "PNG"))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of red and green that holds the preprocessing record."""
    odt.new_model("cnn", input_shape=(8, 8, 3), outputs=2, filters=(8,), seed=1).save(
        tmp_path / "new.tflite"
    )
    record = Record("image", STEPS, ("red", "green"))
    export_model(read_model(str(tmp_path / "new.tflite")), {}, tmp_path / "m.tflite", record=record)
    return tmp_path / "m.tflite"


def test_a_new_folder_is_a_new_class(model: Path, tmp_path: Path) -> None:
    known = photos(tmp_path / "known", "green", "red")  # in another order than in the model
    unused = run(model, "--source", known, "--epochs", 0, "--held-back", 0.5, "--forgetting", 1)
    assert "--held-back, --forgetting: must be left out with --epochs 0" in unused.output
    stored = run(model, "--source", known, "--epochs", 0)
    assert stored.exit_code == 0, stored.output
    assert f"{model}.features.npz: 20 samples" in stored.output
    first = run(model, "--source", known, "--learning-rate", 0.01)
    assert first.exit_code == 0, first.output
    result = run(model, "--source", photos(tmp_path / "new", "blue"), "--learning-rate", 0.01)
    assert result.exit_code == 0, result.output
    assert "new classes: blue" in result.output
    assert f"{model}: the personalized model" in result.output
    record = read_record(read_model(str(model)))
    assert record is not None
    assert record.classes == ("red", "green", "blue")
    with odt.Trainer(model, loss="categorical_crossentropy") as trainer:
        x = np.array([[np.broadcast_to(COLORS[n], (8, 8, 3))] for n in record.classes]) / 255
        assert trainer.predict(x.reshape(3, 8, 8, 3)).argmax(axis=1).tolist() == [0, 1, 2]


def test_python_takes_the_same_folder(model: Path, tmp_path: Path) -> None:
    folder = photos(tmp_path / "new", "red", "green", "blue")
    notes: list[str] = []
    result = odt.personalize(
        model,
        odt.NewData(str(folder)),
        out=tmp_path / "python.tflite",
        learning_rate=0.01,
        held_back=0,
        show=notes.append,
    )
    options = ("--learning-rate", 0.01, "--held-back", 0, "-o", tmp_path / "command.tflite")
    printed = run(model, "--source", folder, *options)
    assert printed.stdout == f"{result}\n".replace("python.tflite", "command.tflite")
    assert "".join(f"{note}\n" for note in notes) in printed.stderr
    files = [(tmp_path / f"{name}.tflite").read_bytes() for name in ("command", "python")]
    assert files[0] == files[1]
    assert result.new_classes == ("blue",)
    with pytest.raises(odt.OdtError, match="must hold folders, one per class"):
        odt.personalize(model, odt.NewData(str(folder / "red")))


def test_data_files_and_an_output(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((12, 8, 8, 3), np.float32))
    np.save(tmp_path / "y.npy", np.eye(3, dtype=np.float32)[np.arange(12) % 3])
    before = model.read_bytes()
    files = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    result = run(model, *files, "--held-back", 0, "-o", tmp_path / "out.tflite")
    assert result.exit_code == 0, result.output
    assert model.read_bytes() == before
    assert read_model(str(tmp_path / "out.tflite")).graph.tensors
    assert (tmp_path / "out.tflite.features.npz").exists()
    named = run(model, *files, "--classes", "green, red, blue", "--held-back", 0)
    assert "new classes: blue" in named.output


def test_a_rollback_is_one_line_and_no_error(model: Path, tmp_path: Path) -> None:
    known = photos(tmp_path / "known", "green", "red")
    assert run(model, "--source", known, "--learning-rate", 0.01).exit_code == 0
    before = model.read_bytes()
    moved = tmp_path / "moved"  # green photos as a new class: it forgets green
    moved.mkdir()
    (known / "green").rename(moved / "lime")
    result = run(model, "--source", moved, "--forgetting", 0)
    assert result.exit_code == 0, result.output
    assert f"Rolled back: the model forgets; {model} is not written." in result.output
    assert model.read_bytes() == before


def test_a_model_is_personalized_by_one_process_at_a_time(model: Path, tmp_path: Path) -> None:
    known = photos(tmp_path / "known", "green", "red")
    with FileLock(model, "MODEL"):
        result = run(model, "--source", known)
    assert result.exit_code == 1
    assert f"MODEL {model}: must be written by one process at a time" in result.stderr
    assert run(model, "--source", known, "--epochs", 0).exit_code == 0


def test_folders_of_some_classes_are_found_by_name(model: Path, tmp_path: Path) -> None:
    """The model holds no names; --classes has them in the order of its outputs."""
    plain = tmp_path / "plain.tflite"
    odt.new_model("cnn", input_shape=(8, 8, 3), outputs=4, filters=(8,), seed=1).save(plain)
    known = photos(tmp_path / "known", "green", "red")
    files = tmp_path / "data"
    made = CliRunner().invoke(
        main, ["gen-datafile", "--source", str(known), "--split", "train=1.0", "-o", str(files)]
    )
    assert made.exit_code == 0, made.output
    names = (
        "--load-input",
        files / "train.input.bin",
        "--load-expected",
        files / "train.output.bin",
    )
    wrong = run(plain, *names, "--epochs", 0)
    assert "must be the 4 classes of the model" in wrong.stderr
    done = run(plain, *names, "--epochs", 0, "--classes", "blue, red, gray, green")
    assert done.exit_code == 0, done.output
    store = read_store(f"{plain}.features.npz")
    assert [(c.name, c.seen) for c in store.classes] == [
        ("blue", 0), ("red", 10), ("gray", 0), ("green", 10)
    ]  # fmt: skip


BAD: list[tuple[tuple[str, ...], str]] = [
    ((), "--data, --load-input or --source: must be given"),
    (("--source", "m.tflite"), "must have a known extension"),
    (("--source", "flat"), "must hold folders, one per class"),
    (("--source", "known", "--load-input", "x.npy"), "must be given without --load-input"),
    (("--source", "known", "-o", "out.h5"), "--output out.h5: must end in"),
    (("--source", "known", "--store", "m.tflite"), "must be a file of its own"),
    (("--source", "known", "--classes", "red"), "--classes"),
    (("--source", "known", "--memory-budget", "1kB"), "--memory-budget"),
    (("--source", "known", "--store-bytes", "1kB"), "--store-bytes"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_errors_are_one_line(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "known", "green", "red")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.png").write_bytes((tmp_path / "known/red/0.png").read_bytes())
    result = run(model, *words)
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
