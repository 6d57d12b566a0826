"""`odt gen-datafile` with published sets: files, names, messages.

The definition of the raw files is that of ONE's tf_dataset_converter: float32, divided by 255,
NHWC, sample after sample; one-hot float32 labels.
"""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import files, odt, refused
from support.idx import write_mnist
from support.paths import ROOT
from support.terminal import on_terminal

from odt.cli.commands import gen_datafile
from odt.datasets.generate import Request, SplitFiles
from odt.datasets.source import Source

FASHION_MNIST = ROOT / "examples" / "fashion-mnist"


def test_whole_splits_are_written_by_the_definition(tmp_path: Path) -> None:
    images = write_mnist(tmp_path / "d")
    out = tmp_path / "o"
    result = odt("gen-datafile", "mnist", "--data-dir", tmp_path / "d", "--out-dir", out)
    assert result.exit_code == 0, result.output
    data = [f"{s}.{r}.bin" for s in ("train", "test") for r in ("input", "output")]
    assert files(out) == sorted([*data, *(f"{name}.json" for name in data)])
    expected = b"".join(
        struct.pack("<f", np.float32(int(v)) / np.float32(255)) for v in images.reshape(-1)
    )
    assert (out / "train.input.bin").read_bytes() == expected
    labels = b"".join(struct.pack("<10f", *(c == k % 10 for c in range(10))) for k in range(20))
    assert (out / "train.output.bin").read_bytes() == labels


def test_a_length_takes_the_first_samples_and_names_the_files(tmp_path: Path) -> None:
    images = write_mnist(tmp_path / "d")
    args = ["--data-dir", tmp_path / "d", "-o", tmp_path / "o", "-p", "set"]
    result = odt("gen-datafile", *args, "--split", "test", "train", "--length", 5, 7, "mnist")
    assert result.exit_code == 0, result.output
    names = [n for n in files(tmp_path / "o") if n.endswith(".bin")]
    assert names == [
        "set.test.input.5.bin",
        "set.test.output.5.bin",
        "set.train.input.7.bin",
        "set.train.output.7.bin",
    ]
    x = np.fromfile(tmp_path / "o/set.train.input.7.bin", "<f4").reshape(7, 28, 28)
    assert np.array_equal(x, images[:7].astype(np.float32) / np.float32(255))


def test_the_sidecar_describes_the_file(tmp_path: Path) -> None:
    write_mnist(tmp_path / "d")
    odt("gen-datafile", "fashion_mnist", "--data-dir", tmp_path / "d", "-o", tmp_path / "o")
    sidecar = json.loads((tmp_path / "o/test.input.bin.json").read_text())
    assert sidecar["samples"] == 10
    assert sidecar["tensors"] == [{"shape": [28, 28, 1], "dtype": "float32"}]
    assert sidecar["classes"][9] == "Ankle boot"
    assert sidecar["balance"]["Trouser"] == 1
    assert sidecar["files"] == {"input": "test.input.bin", "output": "test.output.bin"}


def test_the_sets_are_listed_as_ones_tool_lists_them() -> None:
    result = odt("gen-datafile", "--show-datasets")
    assert result.stdout.startswith("Dataset list :\n[")
    assert "fashion_mnist,\n" in result.stdout


def test_a_name_may_be_spelled_with_dashes(tmp_path: Path) -> None:
    write_mnist(tmp_path / "d")
    args = ["gen-datafile", "Fashion-MNIST", "--data-dir", tmp_path / "d", "-o", tmp_path / "o"]
    assert odt(*args).exit_code == 0
    sidecar = json.loads((tmp_path / "o/test.input.bin.json").read_text())
    assert sidecar["source"]["name"] == "fashion_mnist"


def test_other_names_are_refused_with_what_may_have_been_meant(tmp_path: Path) -> None:
    assert "Did you mean fashion_mnist?" in refused("fashionmnist")
    assert "give --source iris.csv." in refused("iris.csv")
    assert f"give --source {tmp_path}." in refused(tmp_path)
    assert "with --show-datasets" in refused("some_set")
    assert "--download: must be given with the NAME" in refused(
        "--download", "--data-dir", tmp_path
    )


def test_splits_and_lengths_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    line = refused("mnist", "--data-dir", tmp_path, "--length", 3)
    assert "length and split should have the same count, but got 1 and 2" in line


def test_nothing_is_left_of_a_run_that_fails(tmp_path: Path) -> None:
    write_mnist(tmp_path / "d")
    args = ("mnist", "--data-dir", tmp_path / "d", "-o", tmp_path / "o")
    line = refused(*args, "--length", 20, 11)
    assert "test of mnist has 10 samples, but got 11" in line
    assert files(tmp_path / "o") == []


def test_a_folder_without_the_set_is_named(tmp_path: Path) -> None:
    assert "must hold train-images-idx3-ubyte" in refused("mnist", "--data-dir", tmp_path)
    assert f"{tmp_path}/x" in refused("mnist", "--data-dir", tmp_path / "x")


def test_a_progress_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    write_mnist(tmp_path / "d", 300)
    words = ["gen-datafile", "mnist", "--data-dir", str(tmp_path / "d"), "-o", str(tmp_path)]
    shown = on_terminal(*words)
    assert re.search(r"train: 100%.* 300/300 .*samples/s\]", shown.errors)
    assert "test: 100%" in shown.errors
    command = [sys.executable, "-m", "odt", *words]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_profiles_of_ones_tool_know_their_sets(tmp_path: Path) -> None:
    images = write_mnist(tmp_path / "d")
    line = refused("-d", "mnist", "-m", "mobilenetv2", "--data-dir", tmp_path / "d")
    assert line == "Error: mnist does not fit MobileNetV2."
    assert "does not fit Mnist" in refused("-d", "kmnist", "--model", "mnist")
    result = odt("gen-datafile", "-d", "mnist", "-m", "mnist", "--data-dir", tmp_path / "d",
                 "--out_dir", tmp_path / "o", "--length", 20, 10)  # fmt: skip
    assert result.exit_code == 0
    assert np.fromfile(tmp_path / "o/train.input.20.bin", "<f4").size == images.size


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        (("-m", "mnist"), (1000, 100)),  # --length 1000 100 is that tool's default
        (("-m", "mnist", "--split", "test", "train"), (100, 1000)),
        (("-m", "mnist", "--length", 5, 7), (5, 7)),
        (("-m", "mnist", "--split", "train", "test=0.5"), (None, None)),
        (("-l", 30, "-t", 4), (30, 4)),
        (("--train_length", 30), (30, 100)),
        (("--test-length", 4), (1000, 4)),
    ],
)
def test_lengths_of_ones_tool(
    options: tuple[object, ...],
    lengths: tuple[int | None, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: list[Request] = []

    def generate(source: Source, request: Request, bar: object) -> list[SplitFiles]:
        requests.append(request)
        return []

    monkeypatch.setattr(gen_datafile, "generate", generate)
    assert odt("gen-datafile", "--data-dir", FASHION_MNIST, *options).exit_code == 0
    found = {w.name: w.length for w in requests[0].splits}
    assert (found["train"], found["test"]) == lengths


def test_former_lengths_of_ones_tool_work_alone(tmp_path: Path) -> None:
    words = "--train-length, --test-length: must be given without --split and --length"
    assert words in refused("mnist", "-l", 5, "--length", 5, 5)
    assert words in refused("mnist", "-t", 5, "--split", "train")
    table = tmp_path / "t.csv"
    table.write_text("a,b\n" + "1,2\n" * 5)
    words = f"--train-length, --test-length: train of {table} has 4 samples, but got 5"
    assert words in refused("--source", table, "-l", 5, "-t", 1)


def test_data_without_targets_are_one_split_in_their_order(tmp_path: Path) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(8, 3)
    np.savetxt(tmp_path / "new.csv", rows, delimiter=",")
    args = ("--source", tmp_path / "new.csv", "--no-header", "--label-column", "none")
    result = odt("gen-datafile", *args, "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert files(tmp_path / "o") == ["new.input.bin", "new.input.bin.json"]
    assert np.array_equal(np.fromfile(tmp_path / "o/new.input.bin", "<f4"), rows.ravel())
