"""`odt verify`, also with --diff: what differs between two models, and between their outputs."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model

MODEL, X = MLP_SM / "model.circle", MLP_SM / "input.bin"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The model with 0.5 added to the first value of its first bias."""
    model = read_model(MODEL)
    index = model.graph.nodes[0].inputs[2]
    data = model.graph.tensors[index].data
    assert data is not None
    bias = data.copy()
    bias[0] += 0.5
    export_model(model, {index: bias}, tmp_path / "moved.circle", "circle")
    return tmp_path / "moved.circle"


def test_a_model_does_not_differ_from_itself() -> None:
    result = run("verify", "--diff", MODEL, MODEL)
    assert result.exit_code == 0
    assert "no difference in 4 constants" in result.stdout
    assert run("verify", MODEL, MODEL, "--load-input", X).exit_code == 0


def test_a_changed_weight_is_shown(moved: Path) -> None:
    result = run("verify", "--diff", MODEL, moved)
    assert result.exit_code == 1
    assert "same operators; 1 of 4 constants differ" in result.stdout
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("0 FULLY_CONNECTED")]
    assert "  1 of " in row
    assert "  0.5  " in row


def test_a_change_from_zero_has_no_ratio(moved: Path, tmp_path: Path) -> None:
    model = read_model(MODEL)
    index = model.graph.nodes[0].inputs[2]
    zeros = np.zeros_like(model.graph.tensors[index].data)
    export_model(model, {index: zeros}, tmp_path / "zeros.circle", "circle")
    result = run("verify", "--diff", tmp_path / "zeros.circle", moved)
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("0 FULLY_CONNECTED")]
    assert row.endswith("from 0")


def test_changed_outputs_are_measured(moved: Path) -> None:
    result = run("verify", MODEL, moved, "--load-input", X)
    assert result.exit_code == 1
    assert "of 96; same largest output in" in result.stdout
    assert "differ by more than 1e-05" in result.stdout
    assert run("verify", MODEL, moved, "--load-input", X, "--tolerance", 1).exit_code == 0


def test_the_largest_difference_is_that_of_the_predictions(moved: Path, tmp_path: Path) -> None:
    for name, model in (("a", MODEL), ("b", moved)):
        run("predict", model, "--load-input", X, "--output", tmp_path / f"{name}.npy")
    a, b = (np.load(tmp_path / f"{name}.npy").astype(np.float64) for name in "ab")
    rows = abs(a - b).max(axis=1)
    text = run("verify", MODEL, moved, "--load-input", X).stdout
    assert f"largest difference {rows.max():.3g}" in text
    assert f"in sample {rows.argmax()} of 96" in text


def test_other_operators_and_formats_are_shown(tmp_path: Path) -> None:
    other = next(p for p in sorted(MODELS.glob("*.tflite")) if "sine" not in p.name)
    result = run("verify", "--diff", MODEL, other)
    assert result.exit_code == 1
    assert "different format: circle, tflite" in result.stdout
    assert "\n-0 FULLY_CONNECTED" in result.stdout
    converted = tmp_path / "m.tflite"
    assert run("convert", MODEL, converted).exit_code == 0
    assert (
        run("verify", "--diff", MODEL, converted)
        .stdout.splitlines()[0]
        .endswith("different format: circle, tflite")
    )
    assert run("verify", MODEL, converted, "--load-input", X).exit_code == 0


def test_models_with_other_outputs_are_refused(tmp_path: Path) -> None:
    assert (
        run("replace-head", MODEL, "--output", tmp_path / "h.circle", "--classes", 3).exit_code == 0
    )
    result = run("verify", MODEL, tmp_path / "h.circle", "--load-input", X)
    assert result.exit_code == 1
    assert "h.circle: must have outputs of the shapes of" in result.stderr


def test_a_quantized_input_takes_real_numbers(tmp_path: Path) -> None:
    """As train, eval and predict do; each model reads them with its own type and scale."""
    x = np.fromfile(X, np.float32).reshape(-1, 784)
    np.save(tmp_path / "x.npy", x)
    files = [MODEL]
    kinds: Any = ("int8", "uint8")
    for dtype in kinds:
        files.append(tmp_path / f"{dtype}.circle")
        odt.quantize(MODEL, x, input_type=dtype).model.save(files[-1])
    for first, second in itertools.pairwise([*files, files[1]]):
        result = run(
            "verify", first, second, "--load-input", tmp_path / "x.npy", "--tolerance", 0.1
        )
        assert result.exit_code == 0, result.output


def test_options_of_outputs_are_refused_with_diff() -> None:
    for words in (["--load-input", X], ["--tolerance", 1], ["--batch-size", 8], ["--workers", 1]):
        result = run("verify", "--diff", MODEL, MODEL, *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"{words[0]}: must be given without --diff, but got both." in result.stderr
