"""Weights of positions: the loss of a sample is the mean of w · loss over its positions.

The network gives 2 × 3 cells with a box (4 values) and classes (3 probabilities) each.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import odt
from odt.cli.main import main
from odt.core.data.protocol import scales_of
from odt.core.export.model_builder import ModelBuilder
from odt.core.planning.plan import Call
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(5)
N, CELLS = 10, (2, 3)
X = RNG.normal(size=(N, *CELLS, 2)).astype(np.float32)
BOXES = RNG.normal(size=(N, *CELLS, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, (N, *CELLS)).astype(np.int32)
CLASSES = np.eye(3, dtype=np.float32)[LABELS]
W, V = (RNG.uniform(0, 3, (N, *CELLS)).astype(np.float32) for _ in range(2))
S = RNG.uniform(0, 3, N).astype(np.float32)
Weights = dict[str, Array]


def network(path: Path, final: str) -> Path:
    built = ModelBuilder("tflite")
    x = built.add_input((1, *CELLS, 2), name="x")
    outputs = []
    for name, units in (("boxes", 4), ("classes", 3)):
        w = np.random.default_rng(units).normal(size=(units, 1, 1, 2)).astype(np.float32)
        b = np.linspace(-0.5, 0.5, units, dtype=np.float32)
        constants = built.add_constant(w, f"{name}/w"), built.add_constant(b, f"{name}/b")
        y = built.add_operator(
            "CONV_2D", [x, *constants], (1, *CELLS, units), stride_w=1, stride_h=1
        )
        if name == "classes" and final:
            options: dict[str, Any] = {"beta": 1.0} if final == "SOFTMAX" else {}
            y = built.add_operator(final, [y], (1, *CELLS, units), **options)
        built.graph.tensors[y].name = name
        outputs.append(y)
    built.write(path, *outputs)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cells")
    return {f: network(folder / f"{f}.tflite", f) for f in ("SOFTMAX", "LOGISTIC")}


def weights(trainer: odt.Trainer) -> Weights:
    return {name: np.array(a) for name, a in trainer.weights.items()}


# ---- the formulas, in float64: the loss of each cell


def huber(y: Array, t: Array) -> Array:
    e = np.abs(y - t)
    return np.asarray(np.where(e <= 1, e * e / 2, e - 0.5).mean(-1))


def mean_squared_error(y: Array, t: Array) -> Array:
    return np.asarray(((y - t) ** 2).mean(-1))


def mean_absolute_error(y: Array, t: Array) -> Array:
    return np.asarray(np.abs(y - t).mean(-1))


def categorical(y: Array, t: Array) -> Array:
    return np.asarray(np.log(np.exp(y).sum(-1)) - (t * y).sum(-1))


def categorical_focal(y: Array, t: Array) -> Array:
    p = (t * np.exp(y)).sum(-1) / np.exp(y).sum(-1)
    return np.asarray(-0.25 * (1 - p) ** 2 * np.log(p))


def binary(y: Array, t: Array) -> Array:
    return np.asarray((np.log1p(np.exp(y)) - t * y).mean(-1))


def binary_focal(y: Array, t: Array) -> Array:
    p = 1 / (1 + np.exp(-y))
    q = t * p + (1 - t) * (1 - p)
    return np.asarray((-((1 - q) ** 2) * np.log(q)).mean(-1))


Formula = Callable[[Array, Array], Array]
LOSSES: list[tuple[str, Formula, str, str, Formula]] = [
    ("huber", huber, "SOFTMAX", "categorical_crossentropy", categorical),
    ("huber", huber, "SOFTMAX", "sparse_categorical_crossentropy", categorical),
    ("mse", mean_squared_error, "SOFTMAX", "kl_divergence", categorical),
    ("mae", mean_absolute_error, "SOFTMAX", "categorical_focal_crossentropy", categorical_focal),
    ("huber", huber, "LOGISTIC", "binary_crossentropy", binary),
    ("huber", huber, "LOGISTIC", "binary_focal_crossentropy", binary_focal),
]


def reference(before: Weights, box: Formula, label: Formula) -> float:
    """The loss of the batch: the mean over samples of the mean over cells of weight · loss."""
    total = 0.0
    for name, formula, t, w in (("boxes", box, BOXES, W), ("classes", label, CLASSES, V)):
        y = X.astype(np.float64) @ before[f"{name}/w"].reshape(-1, 2).T + before[f"{name}/b"]
        total += float((formula(y, t.astype(np.float64)) * w).reshape(N, -1).mean(1).mean())
    return total


def slope(before: Weights, name: str, place: int, box: Formula, label: Formula) -> float:
    """The derivative of the loss by one weight, by central differences."""
    losses = []
    for step in (1e-5, -1e-5):
        moved = {n: a.astype(np.float64) for n, a in before.items()}
        moved[name].reshape(-1)[place] += step
        losses.append(reference(moved, box, label))
    return (losses[0] - losses[1]) / 2e-5


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
@pytest.mark.parametrize(("box_loss", "box", "final", "class_loss", "label"), LOSSES)
def test_loss_and_gradients_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch,
    models: dict[str, Path],
    kernels: str,
    box_loss: str,
    box: Formula,
    final: str,
    class_loss: str,
    label: Formula,
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    y = [BOXES, LABELS if class_loss.startswith("sparse") else CLASSES]
    losses = {"boxes": box_loss, "classes": class_loss}
    options: dict[str, Any] = {"output_losses": losses, "batch_size": N}
    with odt.Trainer(models[final], optimizer=odt.SGD(1.0), **options) as t:
        before = weights(t)
        expected = reference(before, box, label)
        assert t.evaluate(X, y, [W, V])["loss"] == pytest.approx(expected, rel=1e-6)
        assert t.train_on_batch(X, y, [W, V])["loss"] == pytest.approx(expected, rel=1e-6)
        after = weights(t)
        calls = [e for e in t.session.build().plan.entries if isinstance(e, Call)]
        compiled = [c.compiled is not None for c in calls if c.label.startswith("loss")]
    assert set(compiled) == {kernels == "compiled"}
    for name, a in before.items():
        found = (a.astype(np.float64) - after[name]).reshape(-1)
        slopes = [slope(before, name, k, box, label) for k in range(a.size)]
        np.testing.assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)


BOTH = {"boxes": "huber", "classes": "categorical_crossentropy"}


def trainer(path: Path, **more: Any) -> odt.Trainer:
    options: dict[str, Any] = {"optimizer": odt.SGD(0.1), "batch_size": N, "output_losses": BOTH}
    return odt.Trainer(path, **options | more)


def fitted(path: Path, sample_weight: Any, epochs: int = 2, **more: Any) -> Weights:
    with trainer(path, batch_size=4, **more) as t:
        t.fit(X, [BOXES, CLASSES], epochs=epochs, seed=3, sample_weight=sample_weight)
        return weights(t)


def assert_same_bits(a: Weights, b: Weights) -> None:
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name])


def test_weights_of_one_change_nothing(models: dict[str, Path]) -> None:
    path = models["SOFTMAX"]
    plain, ones = fitted(path, None), fitted(path, [np.ones_like(W), None])
    for name, a in plain.items():
        np.testing.assert_allclose(ones[name], a, rtol=1e-6, atol=1e-7)


def test_weights_of_samples_are_the_same_at_each_position(models: dict[str, Path]) -> None:
    path = models["SOFTMAX"]
    spread = np.broadcast_to(S[:, None, None], W.shape)
    assert_same_bits(fitted(path, [W, S]), fitted(path, [W, spread]))
    assert_same_bits(fitted(path, {"classes": V, "boxes": W}), fitted(path, [W, V]))
    by_sample = fitted(path, S)
    for name, a in fitted(path, [S, spread]).items():
        np.testing.assert_allclose(by_sample[name], a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("micro_batch", "workers"), [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])
def test_micro_batches_and_workers_do_not_matter(
    models: dict[str, Path], micro_batch: int, workers: int
) -> None:
    """Batches of 4, 4 and 2 samples."""
    path, division = models["SOFTMAX"], {"micro_batch": micro_batch, "workers": workers}
    expected = fitted(path, [W, V], micro_batch=4, workers=1, optimizer=odt.Adam(0.01))
    found = fitted(path, [W, V], **division, optimizer=odt.Adam(0.01))
    for name, a in expected.items():
        np.testing.assert_allclose(found[name], a, rtol=1e-4, atol=1e-6)


def test_a_batch_in_one_call_has_the_bits_of_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, Path]
) -> None:
    division: dict[str, Any] = {"micro_batch": 1, "workers": 2}
    monkeypatch.setattr("odt.core.planning.step_mode.is_short", lambda plan: True)
    short = fitted(models["SOFTMAX"], [W, V], **division)
    monkeypatch.setattr("odt.core.planning.step_mode.is_short", lambda plan: False)
    assert_same_bits(fitted(models["SOFTMAX"], [W, V], **division), short)


def test_both_kinds_of_weights_multiply(models: dict[str, Path]) -> None:
    """Data may have both, such as an encoder's weights of anchors and the user's of samples."""
    y = [BOXES, CLASSES]
    with trainer(models["SOFTMAX"]) as t, trainer(models["SOFTMAX"]) as other:
        data = t.session.open(X, y, [W, V])
        data = data.with_weights(S, data.position_weights)
        product = [each * S[:, None, None] for each in (W, V)]
        core = t.session.build(scales=scales_of(data.weights))
        loss = core.step(data, range(N))
        assert loss == pytest.approx(other.train_on_batch(X, y, product)["loss"], rel=1e-6)
        for name, a in weights(other).items():
            np.testing.assert_allclose(weights(t)[name], a, rtol=1e-5, atol=1e-6)


def test_validation_is_weighted(models: dict[str, Path]) -> None:
    y = [BOXES, CLASSES]
    with trainer(models["SOFTMAX"], optimizer=odt.SGD(1e-30), metrics=["mae"]) as t:
        plain, weighted = (t.evaluate(X, y, w) for w in (None, [W, V]))
        assert plain["loss"] != pytest.approx(weighted["loss"], rel=0.01)
        boxes, _ = t.predict(X)
        error = np.abs(boxes - BOXES).mean()  # metrics are not weighted
        assert weighted["mae"] == plain["mae"] == pytest.approx(error, rel=1e-6)
        for train, other, losses in (
            ([W, V], [W, V], (weighted, weighted)),
            ([W, V], None, (weighted, plain)),
            (None, [W, V], (plain, weighted)),
            (S, [W, V], (t.evaluate(X, y, S), weighted)),
        ):
            validation = (X, y) if other is None else (X, y, other)
            logs = t.fit(X, y, sample_weight=train, validation_data=validation).history
            assert logs["loss"][0] == pytest.approx(losses[0]["loss"], rel=1e-5)
            assert logs["val_loss"][0] == pytest.approx(losses[1]["loss"], rel=1e-5)
        split: dict[str, Any] = {
            "validation_split": 0.5,
            "stratify": False,
            "shuffle": False,
            "drop_last": False,
        }
        logs = t.fit(X, y, sample_weight=[W, V], **split).history
        last = t.evaluate(X[5:], [a[5:] for a in y], [W[5:], V[5:]])
        assert logs["val_loss"][0] == pytest.approx(last["loss"], rel=1e-5)


def test_accumulated_gradients_and_iterables(models: dict[str, Path]) -> None:
    path, y, halves = models["SOFTMAX"], [BOXES, CLASSES], (slice(5), slice(5, N))
    with trainer(path) as whole, trainer(path, batch_size=5) as parts:
        whole.train_on_batch(X, y, [W, V])
        for half in halves:
            weighted = [W[half], V[half]]
            parts.forward_backward(X[half], [a[half] for a in y], 0.5, weighted)
        parts.apply_gradients()
        for name, a in weights(whole).items():
            np.testing.assert_allclose(weights(parts)[name], a, rtol=1e-5, atol=1e-6)
    batches = [(X[h], [a[h] for a in y], [W[h], V[h]]) for h in halves]
    with trainer(path, batch_size=5) as t, trainer(path, batch_size=5) as other:
        t.fit(batches)
        other.fit(X, y, sample_weight=[W, V], shuffle=False)
        assert_same_bits(weights(t), weights(other))
    with trainer(path, batch_size=5, accumulate=2) as t, trainer(path) as other:
        t.fit(X, y, sample_weight=[W, V], shuffle=False)
        other.fit(X, y, sample_weight=[W, V], shuffle=False)
        for name, a in weights(other).items():
            np.testing.assert_allclose(weights(t)[name], a, rtol=1e-5, atol=1e-6)


def test_augmented_cached_and_taught_samples_keep_their_weights(
    models: dict[str, Path], tmp_path: Path
) -> None:
    path, y = models["SOFTMAX"], [BOXES, CLASSES]
    identity = [lambda x, rng: x]
    with trainer(path, batch_size=4) as t:
        t.fit(X, y, sample_weight=[W, V], epochs=2, seed=3, augment=identity)
        assert_same_bits(weights(t), fitted(path, [W, V]))
    last: dict[str, Any] = {"trainable": odt.last(2)}
    cached = fitted(path, [W, V], cache_frozen="ram", **last)
    for name, a in fitted(path, [W, V], **last).items():
        np.testing.assert_allclose(cached[name], a, rtol=1e-5, atol=1e-6)
    # The teacher says what the targets say, so that its loss is that of the first output again.
    only = {"output_losses": {"boxes": "huber", "classes": "none"}}
    np.save(tmp_path / "t.npy", BOXES)
    teacher = odt.Teacher(outputs=tmp_path / "t.npy", temperature=1, weight=0.25)
    with trainer(path, teacher=teacher, **only) as t, trainer(path, **only) as other:
        logs = t.fit(X, BOXES, sample_weight=W).history
        assert logs["loss"] == pytest.approx(other.fit(X, BOXES, sample_weight=W).history["loss"])
        for name, a in weights(other).items():
            np.testing.assert_allclose(weights(t)[name], a, rtol=1e-5, atol=1e-6)


class Stop(odt.Callback):
    """Ends training after two steps."""

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        self.trainer.stop_training = batch == 1


def test_a_stopped_run_resumes_with_the_same_bits(models: dict[str, Path], tmp_path: Path) -> None:
    path, y, checkpoint = models["SOFTMAX"], [BOXES, CLASSES], tmp_path / "c.odt"
    whole = fitted(path, [W, V], epochs=3)
    with trainer(path, batch_size=4) as t:
        run: dict[str, Any] = {"epochs": 3, "seed": 3, "callbacks": [Stop()]}
        t.fit(X, y, sample_weight=[W, V], save_to=checkpoint, **run)
    with odt.Trainer(path, checkpoint=checkpoint, output_losses=BOTH) as t:
        t.fit(X, y, epochs=3, sample_weight=[W, V])
        assert_same_bits(weights(t), whole)
    with odt.Trainer(path, checkpoint=checkpoint, output_losses=BOTH) as t:
        differ = "results will differ in bits: .*sample weight [0-9a-f]{8}, now"
        with pytest.warns(odt.OdtWarning, match=differ):
            t.fit(X, y, epochs=3, sample_weight=[V, W])


def test_files_hold_weights_of_positions(models: dict[str, Path], tmp_path: Path) -> None:
    path = models["SOFTMAX"]
    raw, whole = tmp_path / "w.bin", tmp_path / "w.npz"
    raw.write_bytes(W.tobytes() + V.tobytes())  # samples of the first output, then of the other
    np.savez(whole, boxes=W, classes=V)
    np.savez(tmp_path / "y.npz", boxes=BOXES, classes=CLASSES)
    np.save(tmp_path / "x.npy", X)
    with trainer(path) as t:
        expected = t.evaluate(X, [BOXES, CLASSES], [W, V])["loss"]
        for file in (raw, whole):
            assert t.evaluate(X, [BOXES, CLASSES], file)["loss"] == pytest.approx(expected)
    words = ["eval", path, "--load-input", tmp_path / "x.npy"]
    words += ["--load-expected", tmp_path / "y.npz", "--sample-weight", whole]
    words += ["--output-loss", "boxes=huber", "--output-loss", "classes=cce"]
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert f"loss: [0] {expected:.4f}" in done.output, done.output


@pytest.mark.parametrize(
    ("sample_weight", "message"),
    [
        ([-W - 1, V], r"sample_weight\[0\]: sample 0: weights must be finite and 0 or more, but"),
        ([W, np.full_like(V, np.nan)], r"sample_weight\[1\]: sample 0: .*, but got nan"),
        ([W[1:], V], r"same number of samples, but got .*sample_weight\[0\]: 9 of"),
        ([W, V[:, 0]], r"sample_weight\[1\]: a sample must have 6 elements \(2, 3\)"),
        (W, r"sample_weight: must be 2 arrays, one for each tensor, but got 1\."),
        ({"boxes": W}, r"sample_weight: must hold 2 arrays named .*, but got boxes\."),
        ({"boxes": 2.0, "classes": 1.0}, r"sample_weight: must be one .*`loss_weights=` weights"),
        (np.ones(3), r"sample_weight: must have a weight for each of the 10 samples, but got 3"),
    ],
)
def test_what_is_no_weight_is_refused(
    models: dict[str, Path], sample_weight: Any, message: str
) -> None:
    with trainer(models["SOFTMAX"]) as t, pytest.raises(odt.DataError, match=message):
        t.fit(X, [BOXES, CLASSES], sample_weight=sample_weight)


def test_a_custom_loss_of_samples_takes_no_weights_of_positions(models: dict[str, Path]) -> None:
    def value(t: Array, y: Array) -> Array:
        return np.asarray(((y - t) ** 2).reshape(len(t), -1).sum(1))

    def gradient(t: Array, y: Array) -> Array:
        return np.asarray(2 * (y - t))

    losses = {"boxes": (value, gradient), "classes": "categorical_crossentropy"}
    with trainer(models["SOFTMAX"], output_losses=losses) as t:
        t.train_on_batch(X, [BOXES, CLASSES], S)
        with pytest.raises(odt.OptionError, match="a loss for each position to have weights of"):
            t.train_on_batch(X, [BOXES, CLASSES], [W, V])
