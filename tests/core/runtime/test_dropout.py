"""Dropout: masks, a trajectory in float64, and the same masks however a step is computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import odt
from odt.cli.main import main
from odt.core.lowering.normalize.dropout import Mask
from odt.core.runtime.dropout_masks import draw_mask
from odt.errors import OptionError
from odt.kernels.native.library import is_available
from odt.kernels.native.updates import bind_dropout_mask, make_origin
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(2)
X = RNG.normal(size=(50, 12)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[np.arange(50) % 3]
MODEL = odt.new_model("mlp", like=(X, Y), hidden=(16, 8), seed=1)
SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 16}


def mask(seed: int, weight: int, step: int, shape: tuple[int, int], rate: float) -> Array:
    """The mask of a whole step, by the formula of the documentation."""
    key, counter = np.array([seed, weight], np.uint64), np.array([0, 0, 0, step], np.uint64)
    rng = np.random.Generator(np.random.Philox(key=key, counter=counter))
    u = rng.random(shape, np.float32)
    return np.asarray(np.floor(u + np.float32(1 - rate)) / (1 - float(rate)), float)


def trained(**options: Any) -> dict[str, Array]:
    with odt.Trainer(MODEL, **{**SGD, "dropout": {"*": 0.4}, **options}) as trainer:
        trainer.fit(X, Y, epochs=2, seed=7)
        return {name: a.copy() for name, a in trainer.weights.items()}


def assert_close(one: dict[str, Array], other: dict[str, Array]) -> None:
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], rtol=1e-5, atol=1e-6)


def test_a_trajectory_agrees_with_float64() -> None:
    names = ("dense_0", "dense_1", "output")
    with odt.Trainer(MODEL, **SGD, dropout={"*": 0.4, "output/w": 0.1}) as trainer:
        tensors = {name: i for i, name in enumerate(t.name for t in MODEL.tensors)}
        w = [trainer.weights[f"{n}/w"].astype(float) for n in names]
        b = [trainer.weights[f"{n}/b"].astype(float) for n in names]
        for step in range(1, 6):
            rows = slice(8 * step - 8, 8 * step + 8)
            x, t = X[rows].astype(float), Y[rows]
            trainer.train_on_batch(X[rows], Y[rows])
            seen, before = [], []
            for k, rate in enumerate((0.4, 0.4, 0.1)):
                m = mask(0, tensors[f"{names[k]}/w"], step, x.shape, rate)
                seen.append((x * m, m))
                z = x * m @ w[k].T + b[k]
                before.append(z)
                x = np.maximum(z, 0)
            p = np.exp(z - z.max(1, keepdims=True))
            dz = (p / p.sum(1, keepdims=True) - t) / 16
            for k in (2, 1, 0):
                dx = dz @ w[k] * seen[k][1]
                w[k] -= 0.1 * dz.T @ seen[k][0]
                b[k] -= 0.1 * dz.sum(0)
                dz = dx * (before[k - 1] > 0) if k else dx
        for k, name in enumerate(names):
            np.testing.assert_allclose(trainer.weights[f"{name}/w"], w[k], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(trainer.weights[f"{name}/b"], b[k], rtol=1e-4, atol=1e-6)


def drawn(n: int, samples: int, first: int, weight: int = 5, seed: int = 3) -> Array:
    """A mask as drawn, whose compiled and NumPy forms have the same bits."""
    row, origin = Mask(0, weight, 1, 0.3), make_origin()
    origin[:] = seed, 9, first
    values = np.empty(n * samples, np.float32)
    draw_mask(values, n, row, origin)
    if is_available():
        compiled = np.full_like(values, np.nan)
        bind_dropout_mask(compiled, n, weight, row.use, row.rate, origin)()
        assert np.array_equal(compiled, values)
    return values


def test_masks_are_the_same_however_a_step_is_divided() -> None:
    whole = drawn(10, 100, 0)
    assert set(np.unique(whole)) == {0, np.float32(1 / np.float32(0.7))}
    assert (whole == 0).mean() == pytest.approx(0.3, abs=0.05)
    for at, end in ((0, 1), (1, 17), (17, 24), (24, 60), (60, 100)):
        assert np.array_equal(drawn(10, end - at, at), whole[10 * at : 10 * end])
    for seed, weight in ((4, 5), (3, 6), (2**64 - 1, 5)):
        assert not np.array_equal(drawn(10, 100, 0, weight, seed), whole)


def test_micro_batches_workers_and_accumulation_change_nothing() -> None:
    one = trained()
    for micro_batch, workers in ((1, 1), (3, 1), (5, 2)):
        assert_close(one, trained(micro_batch=micro_batch, workers=workers))
    assert_close(one, trained(batch_size=8, accumulate=2))
    assert not np.array_equal(one["output/w"], trained(dropout=None)["output/w"])


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    found = []
    for parts in ([4], [1, 3, 4]):
        for k, epochs in enumerate(parts):
            options = {"checkpoint": tmp_path / "c.odt"} if k else {**SGD, "dropout": {"d*": 0.4}}
            with odt.Trainer(MODEL, **options) as trainer:
                seed = None if k else 5
                trainer.fit(X, Y, epochs=epochs, seed=seed, save_to=tmp_path / "c.odt")
                found.append(trainer.weights["dense_1/w"].copy())
    assert np.array_equal(found[0], found[-1])
    with odt.Trainer(MODEL, checkpoint=tmp_path / "c.odt") as trainer:
        assert [p for _, p in trainer.session.recipe.info.dropout] == [0.4, 0.4]


def test_validation_and_prediction_have_no_dropout() -> None:
    with odt.Trainer(MODEL, dropout=0.5) as one, odt.Trainer(MODEL) as other:
        assert np.array_equal(one.predict(X), other.predict(X))
        assert one.evaluate(X, Y) == other.evaluate(X, Y)
        assert one.train_on_batch(X[:8], Y[:8]) != other.train_on_batch(X[:8], Y[:8])


def test_the_plan_counts_the_masks() -> None:
    model = odt.new_model("mlp", input_shape=(2000,), outputs=2, hidden=(4,))
    options: dict[str, Any] = {"micro_batch": 32, "workers": 1}
    one, other = (odt.plan(model, **options, dropout=d) for d in ({"dense_0/w": 0.5}, None))
    mask = 32 * 2000 * 4  # some of it was workspace of other calls before
    assert 0.8 * mask < one.arenas - other.arenas <= mask


def test_a_number_alone_means_the_last_layer_or_the_adapters() -> None:
    def layers(model: odt.Model, **options: Any) -> list[str]:
        with odt.Trainer(model, **options) as trainer:
            graph = trainer.session.recipe.graph
            return [graph.tensors[i].name for i, _ in trainer.session.recipe.info.dropout]

    assert layers(MODEL, dropout=0.2) == ["output/w"]
    adapted = odt.lora(MODEL, 2)
    assert layers(adapted, dropout=0.2) == [
        f"{n}/w/lora_a" for n in ("dense_0", "dense_1", "output")
    ]
    assert layers(MODEL, dropout={"*": 0.2, "dense_0/*": 0}) == ["dense_1/w", "output/w"]


@pytest.mark.parametrize("dropout", [1, -0.1, float("nan"), {"nothing*": 0.1}])
def test_invalid_values_are_refused(dropout: Any) -> None:
    with pytest.raises(OptionError, match="dropout"):
        odt.Trainer(MODEL, dropout=dropout)


def test_the_command_line(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "m.tflite")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)

    def run(*words: str, status: int = 0) -> str:
        result = CliRunner().invoke(main, [words[0], str(tmp_path / "m.tflite"), *words[1:]])
        assert result.exit_code == status, result.output
        return result.output

    data = ["--load-input", str(tmp_path / "x.npy"), "--load-expected", str(tmp_path / "y.npy")]
    rates = ["--dropout", "dense*=0.3", "--dropout", "0.1"]
    run("train", *data, *rates, "--seed", "7", "--export-tflite", str(tmp_path / "out.tflite"))
    with odt.Trainer(MODEL, dropout=[("dense*", 0.3), ("", 0.1)]) as trainer:
        trainer.fit(X, Y, epochs=5, seed=7)
        ours = trainer.weights["output/w"]
        theirs = odt.load_model(tmp_path / "out.tflite").parameters["output/w"]
        assert np.array_equal(ours, theirs)
    assert "arenas" in run("plan", *rates)
    for wrong in ("1", "x", "a=1.5", "-0.2"):
        run("plan", "--dropout", wrong, status=2)
