"""Folders named by numbers, such as ages, as targets for regression."""

from pathlib import Path

import numpy as np
from support.datafiles import made, plain_picture, refused, samples, sidecar

from odt.datasets.new_data import load_record, open_new
from odt.datasets.source_format import Opening


def ages(root: Path, names: tuple[str, ...]) -> Path:
    """Images whose gray value is the number of their folder."""
    for name in names:
        (root / name).mkdir(parents=True)
        for k in range(3):
            value = round(float(name.replace(",", "."))) if name[0].isdecimal() else 0
            (root / name / f"{k}.png").write_bytes(plain_picture(value))
    return root


def test_numbers_of_folders_are_values(tmp_path: Path) -> None:
    """A folder 7,5 is 7.5; the order of the samples is that of the images."""
    source = ages(tmp_path / "s", ("3", "41", "7,5"))
    made("--source", source, "--regression", "--scale", "none", "-o", tmp_path / "o",
         "--split", "train=1.0")  # fmt: skip
    x, y = (samples(tmp_path / f"o/train.{r}.bin") for r in ("input", "output"))
    assert sorted(y[:, 0].tolist()) == [3, 3, 3, 7.5, 7.5, 7.5, 41, 41, 41]
    np.testing.assert_array_equal(x[:, 0, 0, 0], np.rint(y[:, 0]))
    assert not sidecar(tmp_path / "o/train.input.bin")["classes"]


def test_new_photos_of_a_regression_have_their_numbers_as_targets(tmp_path: Path) -> None:
    made("--source", ages(tmp_path / "s", ("3", "41")), "--regression", "-o", tmp_path / "o")
    record = load_record(str(tmp_path / "o/train.input.bin.json"))
    new = open_new(Opening(str(ages(tmp_path / "new", ("5", "6")))), record)
    part = new.parts["all"]
    assert [part.read(k).targets[0].tolist() for k in range(6)] == [[5]] * 3 + [[6]] * 3
    loose = open_new(Opening(str(tmp_path / "s/3")), record).parts["all"]
    assert loose.read(0).targets == ()  # files outside of folders are for predictions


def test_folders_of_words_are_refused(tmp_path: Path) -> None:
    line = refused("--source", ages(tmp_path / "s", ("3", "old")), "--regression",
                   "-o", tmp_path / "o")  # fmt: skip
    assert "must be named by numbers for --regression, but got old" in line


def test_whole_numbers_of_a_table_of_files_are_values(tmp_path: Path) -> None:
    ages(tmp_path / "s", ("3", "41"))
    (tmp_path / "t.csv").write_text("file,age\n3/0.png,3\n41/0.png,41\n")
    args = ("--source", tmp_path / "s", "--target-source", tmp_path / "t.csv", "-o", tmp_path / "o",
            "--split", "train=1.0", "--no-shuffle")  # fmt: skip
    made(*args, "--regression")
    assert samples(tmp_path / "o/train.output.bin").tolist() == [[3], [41]]
    made(*args)  # without it they are classes
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["3", "41"]
