"""Constants that do not train: listed with their reason, trained if named, exported as they are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

N, F, U, RATE = 4, 3, 4, 0.1
REASON = "initial state of a recurrent layer"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two steps of an RNN that begin with zeros."""
    b = ModelBuilder("tflite", seed=1)
    x = b.add_input((1, 2, F))
    h = b.add_constant(np.zeros((1, U), np.float32), "zeros")
    w, r = b.add_weight((U, F), F, "kernel"), b.add_weight((U, U), U, "recurrent")
    for t in range(2):
        at = b.add_constant(np.array(t, np.int32))
        step = b.add_operator("GATHER", (x, at), (1, F), axis=1, batch_dims=0)
        of_x = b.add_operator("FULLY_CONNECTED", (step, w, -1), (1, U))
        of_h = b.add_operator("FULLY_CONNECTED", (h, r, -1), (1, U))
        h = b.add_operator("TANH", (b.add_operator("ADD", (of_x, of_h), (1, U)),), (1, U))
    y = b.add_operator("FULLY_CONNECTED", (h, b.add_weight((2, U), U, "dense"), -1), (1, 2))
    b.write(tmp_path / "m.tflite", y)
    return tmp_path / "m.tflite"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def constants(path: Path) -> dict[str, Array]:
    return {t.name: t.data for t in read_model(str(path)).graph.tensors if t.data is not None}


def step_of_rnn(values: dict[str, Array], x: Array, target: Array) -> dict[str, Array]:
    """One step of SGD on the mean squared error, in float64 by central differences."""
    weights = {name: values[name].astype(np.float64) for name in ("kernel", "recurrent", "dense")}

    def loss() -> float:
        h = np.zeros((N, U))
        for t in range(2):
            h = np.tanh(x[:, t] @ weights["kernel"].T + h @ weights["recurrent"].T)
        return float(np.mean((h @ weights["dense"].T - target) ** 2))

    moved = {}
    for name, w in weights.items():
        gradient = np.zeros_like(w)
        for k in np.ndindex(w.shape):
            kept = w[k]
            w[k] = kept + 1e-6
            above = loss()
            w[k] = kept - 1e-6
            gradient[k] = (above - loss()) / 2e-6
            w[k] = kept
        moved[name] = w - RATE * gradient
    return moved


def test_a_step_moves_the_weights_and_leaves_the_state(path: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, target = rng.normal(size=(N, 2, F)), rng.normal(size=(N, 2))
    expected = step_of_rnn(constants(path), x, target)
    sgd, out = odt.SGD(RATE), tmp_path / "out.tflite"
    with odt.Trainer(str(path), loss="mean_squared_error", optimizer=sgd, batch_size=N) as trainer:
        trainer.train_on_batch(np.float32(x), np.float32(target))
        trainer.export(str(out))
    trained = constants(out)
    assert not trained["zeros"].any()
    for name, values in expected.items():
        np.testing.assert_allclose(trained[name], values, atol=2e-6)


@pytest.mark.parametrize("command", [("inspect",), ("check", "--loss", "mse")])
def test_a_held_constant_is_listed_with_its_reason(command: tuple[str, ...], path: Path) -> None:
    name, *options = command
    lines = run(name, path, *options).splitlines()
    at = lines.index("constants that do not train; --trainable trains those that it names:")
    assert lines[at + 1].split() == ["REASON", "TENSORS", "VALUES"]
    assert lines[at + 2].split("  ")[1] == REASON
    assert lines[at + 2].endswith('("zeros")')
    if name == "check":
        (trained,) = [line for line in lines if line.startswith("trained: ")]
        assert all(f'"{name}"' in trained for name in ("kernel", "recurrent", "dense"))
        assert '"zeros"' not in trained


def test_options_override_the_rules_in_both_directions(path: Path) -> None:
    options = ("--loss", "mse", "--trainable", "*", "--trainable", "zeros", "--freeze", "kernel")
    lines = run("check", path, *options).splitlines()
    (trained,) = [line for line in lines if line.startswith("trained: ")]
    assert '"zeros"' in trained
    assert '"kernel"' not in trained
    (left_out,) = [line for line in lines if line.startswith("  not selected")]
    assert left_out.endswith('("kernel")')


def test_json_has_the_reason(path: Path) -> None:
    content: dict[str, Any] = json.loads(run("inspect", path, "--json"))
    held = {t["name"]: t["held"] for t in content["tensors"] if t["constant"]}
    assert held["zeros"] == REASON
    assert held["kernel"] == ""


def test_nothing_is_listed_if_all_constants_are_weights(tmp_path: Path) -> None:
    b = ModelBuilder("tflite")
    b.write(tmp_path / "m.tflite", b.add_dense(b.add_input((1, 4)), 2))
    assert "do not train" not in run("inspect", tmp_path / "m.tflite")
