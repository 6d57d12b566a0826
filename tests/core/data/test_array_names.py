"""Arrays by name: of the tensors, of the signature, or numbers in the order of the file.

The model has two inputs and two outputs of one shape, which the signature names in another order
than the file: a mistake would show in the values alone.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.core.export.model_builder import ModelBuilder
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(6, 2)).astype(np.float32) for _ in range(2))
W, V = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, -1], [2, -3]], np.float32)
P, Q = B @ W.T, A @ V.T  # "late" and "early" in the signature
INPUTS = {"signature": ("a", "b"), "file": ("serve_a", "serve_b"), "number": ("1", "0")}
OUTPUTS = {"signature": ("early", "late"), "file": ("call:1", "call:0"), "number": ("1", "0")}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File order: inputs b, a and outputs P(b), Q(a)."""
    built = ModelBuilder("tflite")
    b, a = built.add_input((1, 2), name="serve_b"), built.add_input((1, 2), name="serve_a")
    weights = [built.add_constant(values, name) for values, name in ((W, "w"), (V, "v"))]
    p = built.add_operator("FULLY_CONNECTED", [b, weights[0], -1], (1, 2))
    q = built.add_operator("FULLY_CONNECTED", [a, weights[1], -1], (1, 2))
    built.graph.tensors[p].name, built.graph.tensors[q].name = "call:0", "call:1"
    built.add_signature("serving_default", {"a": a, "b": b}, {"early": q, "late": p})
    path = tmp_path_factory.mktemp("named") / "m.tflite"
    built.write(path, p, q)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def written(path: Path, arrays: dict[str, Array]) -> Path:
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[f"value/{name}"] = values
    else:
        np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kind", ["mapping", ".npz", ".h5"])
def test_any_name_finds_its_tensor(
    model: Path, tmp_path: Path, inputs: str, outputs: str, kind: str
) -> None:
    x: Any = dict(zip(INPUTS[inputs], (A, B), strict=True))
    y: Any = dict(zip(OUTPUTS[outputs], (Q, P), strict=True))
    if kind != "mapping":
        x, y = written(tmp_path / f"x{kind}", x), written(tmp_path / f"y{kind}", y)
    with odt.Trainer(model, loss="mean_squared_error") as trainer:
        assert trainer.evaluate(x, y)["loss"] == pytest.approx(0, abs=1e-9)
        late, early = trainer.predict(x)
    assert np.allclose(late, P)
    assert np.allclose(early, Q)


def test_what_predict_writes_the_next_commands_read(model: Path, tmp_path: Path) -> None:
    x, y = written(tmp_path / "x.npz", {"a": A, "b": B}), tmp_path / "y.npz"
    assert run("predict", model, "--load-input", x, "--output", y).exit_code == 0
    words = ("--load-input", x, "--load-expected", y, "--loss", "mean-squared-error")
    assert "loss: [0] 0.0000" in run("eval", model, *words).output
    trained = run("train", model, *words, "--epochs", 1, "--batch-size", 2)
    assert trained.exit_code == 0, trained.output
    part = run(
        "eval", model, *words[:4], "--output-loss", "early=mse", "--output-loss", "late=none"
    )
    assert part.exit_code == 0, part.output
    assert "loss: [0] 0.0000" in part.output
    assert run("verify", model, model, "--load-input", x).exit_code == 0


def test_a_loss_and_its_targets_are_given_by_names_of_the_signature(model: Path) -> None:
    x, wrong = {"a": A, "b": B}, {"early": Q + 1, "late": P + 2}
    for losses, expected in (
        ({"early": "mse"}, 1.0),
        ({"late": "mse"}, 4.0),
        ({"early": "mse", "late": odt.MeanAbsoluteError()}, 3.0),
        (["mae", "mse"], 3.0),  # in the order of the file: late, early
        ([None, "mse"], 1.0),
    ):
        with odt.Trainer(model, loss=losses) as trainer:
            assert trainer.evaluate(x, wrong)["loss"] == pytest.approx(expected)
    with odt.Trainer(model, loss={"early": "mse", "late": "mse"}, loss_weights={"late": 0}) as t:
        assert t.evaluate(x, wrong)["loss"] == pytest.approx(1)


def test_outputs_without_a_loss_need_no_targets(model: Path, tmp_path: Path) -> None:
    x = {"a": A, "b": B}
    with odt.Trainer(model, loss={"early": "mse"}) as trainer:
        for y in ({"early": Q}, {"early": Q, "late": P + 9}, {"1": Q, "0": P + 9}, {"x": Q}, Q):
            assert trainer.evaluate(x, y)["loss"] == pytest.approx(0, abs=1e-9)
        path = written(tmp_path / "y.npz", {"early": Q, "late": P, "more": P})
        assert trainer.session.open(x, path).notes == (
            f"{path}: late, more: no expected output that is needed has this name: ignored.",
        )
        with pytest.raises(odt.DataError, match=r"y: must hold one array, .* but got late"):
            trainer.evaluate(x, {"late": P})


def test_arrays_in_order_say_which_order_that_is(model: Path, tmp_path: Path) -> None:
    """Only where the signature has another order, and shapes do not tell."""
    words = "read in the order of the file's inputs, b, a; the signature has them as a, b."
    np.savez(tmp_path / "x.npz", B, A)
    np.concatenate([B, A]).tofile(tmp_path / "x.bin")
    with odt.Trainer(model, loss="mse") as trainer:
        in_order: list[Any] = [[B, A], tmp_path / "x.npz", tmp_path / "x.bin"]
        for x in in_order:
            (note,) = trainer.session.open(x, targets=False).notes
            assert words in note
        for x in ({"a": A, "b": B}, written(tmp_path / "n.npz", {"a": A, "b": B})):
            assert not trainer.session.open(x, targets=False).notes
        (note,) = trainer.session.open({"a": A, "b": B}, [P, Q]).notes
        assert "y: read in the order of the file's expected outputs, late, early" in note
    single = odt.load_model(MLP_SM / "model.circle")
    with odt.Trainer(single) as trainer:
        assert not trainer.session.open(MLP_SM / "input.bin", MLP_SM / "expected.bin").notes


class Loader:
    """A map-style data set whose items are samples, or batches of two."""

    def __init__(self, x: Any, y: Any, size: int) -> None:
        self._x, self._y, self._size = x, y, size

    def __len__(self) -> int:
        return 6 // max(self._size, 1)

    def __getitem__(self, k: int) -> Any:
        part: Any = slice(2 * k, 2 * k + 2) if self._size else k
        return tuple(
            {n: a[part] for n, a in v.items()} if isinstance(v, dict) else [a[part] for a in v]
            for v in (self._x, self._y)
        )


@pytest.mark.parametrize("size", [0, 2])
@pytest.mark.parametrize("named", [True, False])
def test_data_sets_give_arrays_by_name_too(model: Path, named: bool, size: int) -> None:
    x: Any = {"a": A, "b": B} if named else [B, A]
    y: Any = {"early": Q, "late": P} if named else [P, Q]
    with odt.Trainer(model, loss="mse", batch_size=4) as trainer:
        assert trainer.evaluate(Loader(x, y, size))["loss"] == pytest.approx(0, abs=1e-9)
        with pytest.raises(odt.DataError, match="sample_weight: must be one weight for each"):
            trainer.fit({"a": A, "b": B}, [P, Q], sample_weight={"early": 1.0, "late": 0.5})
        with pytest.raises(odt.DataError, match=r"sample_weight: must hold 2 .*, but got early\."):
            trainer.fit({"a": A, "b": B}, [P, Q], sample_weight={"early": np.ones(6)})
    for metrics in ({"early": "r2"}, [["r2"]]):
        with pytest.raises(odt.OptionError, match="`metrics=`: must be names, for the first out"):
            odt.Trainer(model, loss="mse", metrics=metrics)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "got"),
    [
        ({"a": A}, "a"),
        ({"a": A, "B": B}, "B, a"),
        ({"a": A, "serve_a": A, "b": B}, "a, b, serve_a"),
        ({"a": A, "b": B, "c": B}, "a, b, c"),
        ({"0": A, "1": B, "c": B}, "0, 1, c"),
        ({"1": A, "2": B}, "1, 2"),
    ],
)
def test_missing_and_unknown_names_are_refused(model: Path, x: Any, got: str) -> None:
    words = f"^x: must hold 2 arrays named 0, 1, … or b, a, but got {got}.$"
    with odt.Trainer(model, loss="mse") as trainer, pytest.raises(odt.DataError, match=words):
        trainer.predict(x)


def test_names_that_two_tensors_have_select_none(tmp_path: Path) -> None:
    """The names of the signature are those of the tensors, exchanged."""
    built = ModelBuilder("tflite")
    b, a = built.add_input((1, 2), name="a"), built.add_input((1, 2), name="b")
    p, q = (
        built.add_operator("FULLY_CONNECTED", [i, built.add_constant(w), -1], (1, 2))
        for i, w in ((b, W), (a, V))
    )
    built.graph.tensors[p].name, built.graph.tensors[q].name = "1", "0"
    built.add_signature("serving_default", {"a": a, "b": b}, {"x": p, "y": q})
    built.write(tmp_path / "m.tflite", p, q)
    with odt.Trainer(tmp_path / "m.tflite", loss="mse") as trainer:
        with pytest.raises(odt.DataError, match=r"x: must hold 2 arrays named 0, 1, …, but got a"):
            trainer.predict({"a": A, "b": B})
        assert trainer.evaluate({"1": A, "0": B}, [P, Q])["loss"] == pytest.approx(0, abs=1e-9)
    x, y = written(tmp_path / "x.npz", {"1": A, "0": B}), tmp_path / "y.npz"
    assert run("predict", tmp_path / "m.tflite", "--load-input", x, "--output", y).exit_code == 0
    assert np.allclose(np.load(y)["0"], P), "numbers count in the order of the file"
