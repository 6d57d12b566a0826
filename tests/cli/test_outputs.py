"""Output files never overwrite inputs or other outputs, and extensions fit their formats."""

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM, MODELS

from odt.cli.main import main
from odt.cli.output.output_paths import check_outputs
from odt.errors import OdtError

SINE = MODELS / "tflm-hello-world-sine-float.tflite"
RECIPE = (
    '{"optimizer": {"type": "adam", "args": {"learningRate": 0.01}}, "loss": {"type": '
    '"categorical crossentropy", "args": {"reduction": "sum over batch size"}}, "batchSize": 16, '
    '"fineTuning": 0}'
)
TRAIN = "train m.circle --epochs 1 --load-input x.bin --load-expected t.bin"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in (("m.circle", "model.circle"), ("x.bin", "input.bin")):
        (tmp_path / name).write_bytes((MLP_SM / source).read_bytes())
    (tmp_path / "t.bin").write_bytes((MLP_SM / "expected.bin").read_bytes())
    (tmp_path / "sine.tflite").write_bytes(SINE.read_bytes())
    np.zeros((64, 1), np.float32).tofile(tmp_path / "s.bin")
    (tmp_path / "recipe.json").write_text(RECIPE)
    (tmp_path / "c.odt").write_bytes(b"a checkpoint")
    os.symlink("m.circle", tmp_path / "link.circle")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "output", "other"),
    [
        (f"{TRAIN} --export-checkpoint m.circle", "--export-checkpoint", "MODEL"),
        (f"{TRAIN} --export-checkpoint x.bin", "--export-checkpoint", "--load-input"),
        (f"{TRAIN} --export-circle ./t.bin", "--export-circle", "--load-expected"),
        (f"{TRAIN} --export-tflite m.circle", "--export-tflite", "MODEL"),
        (f"{TRAIN} --export-checkpoint link.circle", "--export-checkpoint", "MODEL"),
        (f"{TRAIN} --export-circle f --export-tflite ./f", "--export-tflite", "--export-circle"),
        (
            "train sine.tflite --load-input s.bin --load-expected s.bin "
            "--loss mean-squared-error --export-circle sine.tflite",
            "--export-circle",
            "MODEL",
        ),
        ("circle-plus-gen m.circle recipe.json recipe.json", "OUTPUT", "JSON"),
        ("circle-plus-gen sine.tflite recipe.json sine.tflite", "OUTPUT", "INPUT"),
        ("predict m.circle --load-input x.bin --output ./x.bin", "--output", "--load-input"),
        ("predict m.circle --load-input x.bin --output m.circle", "--output", "MODEL"),
        ("checkpoint convert c.odt ./c.odt --nominal", "OUT", "IN"),
        ("checkpoint convert c.odt m.circle --model m.circle", "OUT", "--model"),
        ("convert m.circle link.circle", "OUT", "IN"),
    ],
)
def test_other_inputs_and_outputs_are_not_overwritten(
    line: str, output: str, other: str, folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {output} ")
    assert result.stderr.endswith(
        f": must be a file of its own, but got the file of {other}. Give another name.\n"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            f"{TRAIN} --export-circle a.tflite",
            "--export-circle a.tflite: must have an extension that fits",
        ),
        (
            f"{TRAIN} --export-circleplus a.TFLite",
            "must have an extension that fits circle+, but got .tflite",
        ),
        (f"{TRAIN} --export-tflite a.circle", "but got .circle. Give a name that ends in .tflite."),
        (
            "circle-plus-gen m.circle recipe.json o.tflite",
            "OUTPUT o.tflite: must have an extension that fits",
        ),
        (
            "circle-plus-gen m.circle o.tflite --batch-size 4",
            "OUTPUT o.tflite: must have an extension that fits",
        ),
        (
            f"{TRAIN} --export-tflite out.h5",
            "--export-tflite out.h5: must have an extension that fits",
        ),
        ("circle-plus-gen m.circle o.tflite --remove", "Give a name that ends in .circle."),
        ("circle-plus-gen sine.tflite o.circle --remove", "Give a name that ends in .tflite."),
    ],
)
def test_an_extension_of_another_format_is_refused(line: str, words: str, folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 1
    assert words in result.stderr
    assert {path.name for path in folder.iterdir()} == before


def test_unknown_extensions_are_accepted(folder: Path) -> None:
    result = CliRunner().invoke(main, f"{TRAIN} --export-tflite a.bin --export-circle b".split())
    assert result.exit_code == 0, result.output
    assert (folder / "a.bin").read_bytes()[4:8] == b"TFL3"
    assert (folder / "b").read_bytes()[4:8] == b"CIR0"


def test_the_resumed_checkpoint_may_be_overwritten(folder: Path) -> None:
    line = f"{TRAIN} --export-checkpoint state.odt"
    assert CliRunner().invoke(main, line.split()).exit_code == 0
    before = (folder / "state.odt").read_bytes()
    on = CliRunner().invoke(main, [*line.split(), "--checkpoint", "state.odt", "--epochs", "2"])
    assert on.exit_code == 0, on.output
    assert (folder / "state.odt").read_bytes() != before


def test_a_recipe_is_no_output(folder: Path) -> None:
    result = CliRunner().invoke(main, ["circle-plus-gen", "m.circle", "recipe.json", "--remove"])
    assert result.exit_code == 1
    assert (
        "--remove: must be given with INPUT and OUTPUT only, but got recipe.json" in result.stderr
    )
    assert (folder / "recipe.json").read_text() == RECIPE


def test_paths_of_new_files_are_compared(folder: Path) -> None:
    check_outputs({"--a": "new", "--b": "other", "--c": None}, {"--d": "m.circle", "--e": None})
    os.symlink("new", folder / "old")
    with pytest.raises(
        OdtError, match=r"--b old: must be a file of its own, but got the file of --a"
    ):
        check_outputs({"--a": "new", "--b": "old"}, {})
