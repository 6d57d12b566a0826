"""What a user can get wrong: one clear line, the right exit status, nothing written or lost."""

import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import GOLDEN, MLP_SM, MODELS

from odt.cli.main import main

SOFTMAX = MLP_SM / "model.circle"  # 784 → 10, ends in SOFTMAX
LOGITS = GOLDEN / "mnist" / "model.circle"  # 28×28×1 → 10
OLD = b"the file that was there before"

Prepare = Callable[[Path], object]


def nothing(folder: Path) -> None:
    pass


@dataclass(frozen=True)
class Bad:
    """A command line that must be refused.

    Attributes:
        command: {d} is a folder with model.circle, x.bin, t.bin (64 samples), old.circle.
        words: that the message must hold.
        prepare: makes the folder as it must not be.
        status: 1 for what odt refuses, 2 for usage.
    """

    command: str
    words: str
    prepare: Prepare = nothing
    status: int = 1


DATA = "--load-input {d}/x.bin --load-expected {d}/t.bin"
TRAIN = "train {d}/model.circle " + DATA


def write(name: str, content: bytes) -> Prepare:
    return lambda folder: (folder / name).write_bytes(content)


def arrays_x_and_y(folder: Path) -> None:
    np.savez(folder / "x.npz", x=np.zeros((4, 784), "float32"), y=np.zeros(4, "int64"))


def edit_model(change: Callable[[bytearray], bytes | bytearray]) -> Prepare:
    def prepare(folder: Path) -> None:
        path = folder / "model.circle"
        path.write_bytes(change(bytearray(path.read_bytes())))

    return prepare


def replaced(old: bytes, new: bytes) -> Callable[[bytearray], bytes]:
    def change(data: bytearray) -> bytes:
        assert old in data
        return bytes(data).replace(old, new)

    return change


def use(model: Path) -> Prepare:
    return lambda folder: (folder / "model.circle").write_bytes(model.read_bytes())


def edit_floats(name: str, at: int, value: float) -> Prepare:
    def prepare(folder: Path) -> None:
        a = np.fromfile(folder / name, "<f4")
        a[at] = value
        a.tofile(folder / name)

    return prepare


def save(name: str, array: object) -> Prepare:
    return lambda folder: np.save(folder / name, np.asarray(array), allow_pickle=True)


def no_samples(folder: Path) -> None:
    np.save(folder / "x.npy", np.zeros((0, 784), np.float32))
    np.save(folder / "t.npy", np.zeros((0, 10), np.float32))


def labels(*values: int) -> Prepare:
    def prepare(folder: Path) -> None:
        a = np.zeros(64, "<i4")
        a[: len(values)] = values
        a.tofile(folder / "t.bin")

    return prepare


def hdf5(group: str, **arrays: object) -> Prepare:
    def prepare(folder: Path) -> None:
        with h5py.File(folder / "x.h5", "w") as f:
            f.create_group(group)
            for name, a in arrays.items():
                f[f"{group}/{name.removeprefix('_')}"] = a

    return prepare


ROWS = {
    "no model": Bad("train {d}/none.circle " + DATA, "none.circle"),
    "a folder as model": Bad("inspect {d}", "a model must be a file, but got a folder"),
    "an empty model": Bad(TRAIN, "model.circle", write("model.circle", b"")),
    "no model at all": Bad(
        TRAIN, "a text file", write("model.circle", b"hello, this is text" * 10)
    ),
    "a truncated model": Bad(TRAIN, "model.circle", edit_model(lambda b: b[: len(b) // 2])),
    "a model cut after its header": Bad(TRAIN, "model.circle", edit_model(lambda b: b[:12])),
    "a wrong identifier": Bad(TRAIN, "CIR0", edit_model(replaced(b"CIR0", b"XXXX"))),
    "a root beyond the file": Bad(
        TRAIN, "model.circle", edit_model(lambda b: b"\xff\xff\xff\x7f" + b[4:])
    ),
    "an operator without a row": Bad(TRAIN, "WHILE", use(MODELS / "while_000.circle")),
    "no loss for logits": Bad(TRAIN, "--loss: must be given", use(LOGITS)),
    "an unknown loss": Bad(TRAIN + " --loss hinge", "must be one of", status=2),
    "a misspelled loss": Bad(TRAIN + " --loss categorical-crosentropy", "Did you mean", status=2),
    "an unknown optimizer": Bad(TRAIN + " --optimizer rprop", "must be one of", status=2),
    "an unknown metric": Bad(TRAIN + " --metric f2", "must be one of", status=2),
    "no inputs": Bad("train {d}/model.circle --load-expected {d}/t.bin", "--load-input"),
    "no targets": Bad("train {d}/model.circle --load-input {d}/x.bin", "--load-expected"),
    "no data file": Bad(
        "train {d}/model.circle --load-input {d}/y.bin --load-expected {d}/t.bin", "y.bin"
    ),
    "an empty data file": Bad(TRAIN, "x.bin: must hold samples", write("x.bin", b"")),
    **{
        f"an array of no samples: {command}": Bad(
            command + " {d}/model.circle --load-input {d}/x.npy" + targets,
            "x.npy: input 0: must hold samples, but holds none.",
            no_samples,
        )
        for command, targets in {
            **dict.fromkeys(("train", "check", "eval"), " --load-expected {d}/t.npy"),
            "predict": "",
        }.items()
    },
    "a data file as an argument": Bad(
        "train {d}/model.circle {d}/x.bin",
        "x.bin). Data are given by --data, --load-input",
        status=2,
    ),
    "arrays of other names": Bad(
        "train {d}/model.circle --load-input {d}/x.npz --load-expected {d}/t.bin",
        "must hold one array, or one named 0 or x, but got x, y; odt gen-datafile makes",
        arrays_x_and_y,
    ),
    "less than one sample": Bad(TRAIN, "3136 bytes", write("x.bin", bytes(100))),
    "files of two lengths": Bad(TRAIN, "same number of samples", write("t.bin", bytes(40 * 63))),
    "NaN in the inputs": Bad(
        TRAIN, "sample 5: values must be finite, but got nan", edit_floats("x.bin", 5 * 784, np.nan)
    ),
    "infinity in the targets": Bad(
        TRAIN + " --loss mean-squared-error", "sample 7", edit_floats("t.bin", 70, np.inf)
    ),
    "a target that is no distribution": Bad(TRAIN, "sample 3", edit_floats("t.bin", 30, 2.5)),
    "a negative probability": Bad(TRAIN, "sample 4", edit_floats("t.bin", 40, -1.0)),
    "bad values, looked for before": Bad(
        TRAIN + " --check-data --batch-size 8", "sample 63", edit_floats("x.bin", -1, np.nan)
    ),
    "a label out of range": Bad(
        TRAIN + " --loss sparse-categorical-crossentropy",
        "sample 2: labels must be 0 … 9, or -1 to ignore one, but got 10",
        labels(1, 2, 10),
    ),
    "a batch that no memory holds": Bad(
        "predict {d}/model.circle --load-input {d}/x.bin --batch-size 2000000000",
        "memory: must be enough, but got: Unable to allocate",
    ),
    "a negative label": Bad(
        TRAIN + " --loss sparse-categorical-crossentropy", "but got -2", labels(-2)
    ),
    "a batch larger than the data": Bad(TRAIN + " --batch-size 65 --drop-last", "at most 64"),
    "a batch of none": Bad(TRAIN + " --batch-size 0", "batch-size", status=2),
    "nothing left to train": Bad(
        TRAIN + " --validation-split 1", "must leave some of the 64 samples for training"
    ),
    "a split above 1": Bad(TRAIN + " --validation-split 1.5", "must be 0 … 1, but got 1.5"),
    "a micro-batch above the batch": Bad(TRAIN + " --micro-batch 33", "at most the batch size"),
    "more operators than there are": Bad(TRAIN + " --num-of-trainable-ops 99", "but got 99"),
    "fewer operators than none": Bad(TRAIN + " --num-of-trainable-ops -2", "-2", status=2),
    "a learning rate of 0": Bad(TRAIN + " --learning-rate 0", "--learning-rate: must be"),
    "a learning rate of NaN": Bad(TRAIN + " --learning-rate nan", "--learning-rate: must be"),
    "a decay rate of NaN": Bad(TRAIN + " --beta-1 nan", "--beta-1: must be a number, 0 or more"),
    "a weight decay of infinity": Bad(TRAIN + " --weight-decay inf", "--weight-decay: must be a"),
    "a loss weight of NaN": Bad(TRAIN + " --loss-weight 0=nan", "--loss-weight: must be numbers"),
    "Nesterov without momentum": Bad(TRAIN + " --optimizer sgd --nesterov", "--nesterov: needs"),
    "momentum for Adam": Bad(TRAIN + " --momentum 0.9", "adam has no such value"),
    "a loss that explodes": Bad(
        TRAIN + " --loss mean-squared-error --optimizer sgd --learning-rate 1e30",
        "the loss must be finite",
        use(SOFTMAX.parents[1] / "mnist" / "model.circle"),
    ),
    "an export into no folder": Bad(TRAIN + " --export-circle {d}/no/out.circle", "out.circle"),
    "an export onto a folder": Bad(TRAIN + " --export-circle {d}", "is not a file"),
    "an array of another shape": Bad(
        "train {d}/model.circle --load-input {d}/x.npy --load-expected {d}/t.bin",
        "a sample must have 784 elements",
        save("x.npy", np.zeros((64, 10), np.float32)),
    ),
    "complex numbers": Bad(
        "train {d}/model.circle --load-input {d}/x.npy --load-expected {d}/t.bin",
        "complex64",
        save("x.npy", np.zeros((64, 784), np.complex64)),
    ),
    "Python objects": Bad(
        "predict {d}/model.circle --load-input {d}/x.npy",
        "Python objects",
        save("x.npy", np.array([{}, None], object)),
    ),
    "a damaged archive": Bad(
        "predict {d}/model.circle --load-input {d}/x.npz",
        "must be an .npz",
        write("x.npz", b"PK\x03\x04" + bytes(64)),
    ),
    "HDF5 without the group": Bad(
        "predict {d}/model.circle --load-input {d}/x.h5", 'group "value"', hdf5("other")
    ),
    "HDF5 of another shape": Bad(
        "predict {d}/model.circle --load-input {d}/x.h5",
        "784 elements",
        hdf5("value", _0=np.zeros((4, 9), np.float32)),
    ),
    "an evaluation without targets": Bad(
        "eval {d}/model.circle --load-input {d}/x.bin", "--load-expected"
    ),
    "an empty text": Bad(TRAIN + " --export-checkpoint=", "--export-checkpoint: must not be empty"),
    "a device as model": Bad("inspect /dev/zero", "a model must be a file, but got a device"),
    "a device as adapters": Bad(TRAIN + " --adapters /dev/zero", "but got: a device or pipe"),
    "a device as board": Bad("plan {d}/model.circle --board /dev/zero", "a device or pipe"),
    "a number beyond float32": Bad(TRAIN + " --learning-rate 1e300", "at most 3.403e+38"),
    "a whole number of 23 digits": Bad(
        "plan {d}/model.circle --data-length 99999999999999999999999", "--data-length: must be"
    ),
    "a size of 400 digits": Bad(
        TRAIN + " --memory-budget " + "9" * 400, "must be a size such as", status=2
    ),
    "classes with two signs": Bad(
        "replace-head {d}/model.circle --classes=--1 -o {d}/n.circle", "at least 1", status=2
    ),
    "units of 5000 digits": Bad(
        "replace-head {d}/model.circle --classes 2 -o {d}/n.circle --hidden " + "9" * 5000,
        "must be whole numbers above 0",
        status=2,
    ),
    "a tensor of 5000 digits": Bad(
        "cut {d}/model.circle -o {d}/n.circle --after " + "9" * 5000, "--after: must be names"
    ),
    "a tolerance of NaN": Bad(
        "verify {d}/model.circle {d}/model.circle --load-input {d}/x.bin --tolerance nan",
        "must be a finite number",
        status=2,
    ),
    "a picture with the name of data": Bad(
        "data show {d}/x.bin --sheet {d}/t.bin", "must end in .png, but got .bin"
    ),
    "a chart with the name of a model": Bad(
        "plan {d}/model.circle --png {d}/old.circle", "must end in .png, but got .circle"
    ),
    "an export with the name of a folder": Bad(TRAIN + " --export-circle {d}/n/", "of a folder"),
    "a run whose name is too long": Bad("report {d}/" + "n" * 300, "file name too long"),
    "a package beside its folder": Bad(
        "package {d}/model.circle -o {d}/packages -p ..", "--nnpkg-name: must be the name of"
    ),
    "expected outputs without inputs": Bad(
        "plan {d}/model.circle --load-expected {d}/t.bin", "--load-expected: must come with --load-"
    ),
    "a folder of data beside files": Bad(
        "fed simulate --model {d}/model.circle --data {d} " + DATA, "--data: must be given without"
    ),
    "a shape of an array with one": Bad(
        "data show {d}/x.npz --shape 784", "--shape: must be left out for", arrays_x_and_y
    ),
    "a target as one-hot input": Bad(
        "gen-datafile --source {d}/t.csv --out-dir {d}/data --one-hot kind",
        "--one-hot must name columns of inputs, but got kind, the target",
        write("t.csv", b"a,kind\n1,x\n2,y\n"),
    ),
    "samples that a model cannot take": Bad(
        "gen-datafile --source {d}/t.csv --out-dir {d}/data --like {d}/model.circle",
        "must become (784,), but is (1,)",
        write("t.csv", b"a,kind\n1,x\n2,y\n"),
    ),
    "a window of 23 digits": Bad(
        "gen-datafile --source {d}/t.csv --out-dir {d}/data --window " + "9" * 23,
        "rows for a window, but has 2 in all series",
        write("t.csv", b"a,kind\n1,x\n2,y\n"),
    ),
    "filters for an MLP": Bad(
        "new mlp --input-shape 4 --outputs 2 --filters 3,4 -o {d}/n.circle", "but got 3,4"
    ),
    "a stratified split of nothing": Bad(
        TRAIN + " --stratify", "--stratify: must come with --validation-split"
    ),
    "a prediction into no folder": Bad(
        "predict {d}/model.circle --load-input {d}/x.bin --output {d}/no/y.npy", "y.npy"
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    use(SOFTMAX)(tmp_path)
    rng.random((64, 784), np.float32).tofile(tmp_path / "x.bin")
    np.eye(10, dtype="<f4")[rng.integers(0, 10, 64)].tofile(tmp_path / "t.bin")
    (tmp_path / "old.circle").write_bytes(OLD)
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_at_least_thirty_bad_inputs_are_tested() -> None:
    assert len(ROWS) >= 30


@pytest.mark.parametrize("name", ROWS)
def test_bad_input_gets_one_line_and_leaves_no_trace(name: str, folder: Path) -> None:
    row = ROWS[name]
    row.prepare(folder)
    before = snapshot(folder)
    arguments = row.command.format(d=folder).split()
    if arguments[0] == "train" and "--export-circle" not in arguments:
        arguments += ["--export-circle", str(folder / "old.circle")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == row.status, result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, result.stderr
    assert row.words in errors[0]
    if row.status == 1:
        assert result.stderr.splitlines()[-1] == errors[0]
        assert "Traceback" not in result.output
        assert "`" not in errors[0]  # Python's names are translated
    assert snapshot(folder) == before


def test_a_full_disk_keeps_the_old_file(folder: Path) -> None:
    """RLIMIT_FSIZE stands in for the disk: the model has 400 kB, and 100 kB may be written."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    before = snapshot(folder)
    command = [sys.executable, "-m", "odt", *TRAIN.format(d=folder).split(), "--epochs", "1"]
    command += ["--export-circle", str(folder / "old.circle")]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1, done.stderr
    assert "old.circle" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert snapshot(folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
@pytest.mark.parametrize(
    "words",
    [
        ["train", "--epochs", "1", "--export-tflite", "out.tflite"],
        ["train", "--epochs", "1", "--run-dir", "run"],
        ["train", "--epochs", "1", "--log", "log.csv"],
        ["convert", "out.tflite"],
        ["artifacts", "-o", "out"],
    ],
    ids=" ".join,
)
def test_a_current_folder_that_was_removed_is_one_line(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    model = [str(MLP_SM / "model.circle")]
    if words[0] == "train":
        model += ["--load-input", str(MLP_SM / "input.bin")]
        model += ["--load-expected", str(MLP_SM / "expected.bin")]
    code = "import os, runpy, sys; os.rmdir(os.getcwd()); sys.argv[0] = 'odt'; "
    code += "runpy.run_module('odt', run_name='__main__')"
    # The script odt does not import from the current folder, -P neither: Python 3.13.0 itself fails
    # to import from one that is gone.
    command = [sys.executable, "-P", "-c", code, words[0], *model, *words[1:]]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path / "gone", check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
