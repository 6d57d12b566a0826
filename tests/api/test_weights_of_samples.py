"""Sample weights and class weights: Σ w · loss / N as in Keras, whatever the batches are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.core.data.sample_weights import class_weights

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 784)).astype(np.float32)
LABELS = np.arange(N) % 10
LABELS[LABELS > 6] = 0  # class 0 is frequent, 7 … 9 are absent
Y = np.eye(10, dtype=np.float32)[LABELS]
W = RNG.uniform(0, 3, N).astype(np.float32)
LOSSES = ["categorical_crossentropy", "mse", "mae", "huber", "cce:label_smoothing=0.1"]
LOSSES += ["kl_divergence", "categorical_focal_crossentropy"]


def trainer(**more: Any) -> odt.Trainer:
    options: dict[str, Any] = {"optimizer": odt.SGD(0.05, momentum=0.9), "batch_size": N} | more
    return odt.Trainer(MODEL, **options)


def weights(trained: odt.Trainer) -> dict[str, Any]:
    return {name: a.copy() for name, a in trained.weights.items()}


def fitted(
    sample_weight: Any = None, class_weight: Any = None, epochs: int = 2, **more: Any
) -> dict[str, Any]:
    with trainer(batch_size=16, **more) as t:
        t.fit(X, Y, epochs=epochs, seed=3, sample_weight=sample_weight, class_weight=class_weight)
        return weights(t)


def assert_same_bits(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_the_weighted_sum_over_the_batch_size(loss: str) -> None:
    with trainer(loss=loss) as t:
        each = [t.test_on_batch(X[k : k + 1], Y[k : k + 1])["loss"] for k in range(N)]
        assert t.test_on_batch(X, Y, W)["loss"] == pytest.approx(np.dot(W, each) / N, rel=1e-5)
        assert t.evaluate(X, Y, W)["loss"] == pytest.approx(np.dot(W, each) / N, rel=1e-5)
        assert t.train_on_batch(X, Y, W)["loss"] == pytest.approx(np.dot(W, each) / N, rel=1e-5)
    with trainer(loss=loss, reduction="sum") as t:
        assert t.test_on_batch(X, Y, W)["loss"] == pytest.approx(np.dot(W, each), rel=1e-5)


def test_weight_two_is_the_sample_twice() -> None:
    twice = np.repeat(np.arange(N), 1 + (np.arange(N) < 8))
    with trainer(reduction="sum") as one, trainer(reduction="sum", batch_size=len(twice)) as other:
        one.train_on_batch(X, Y, 1.0 + (np.arange(N) < 8))
        other.train_on_batch(X[twice], Y[twice])
        for name, a in one.weights.items():
            np.testing.assert_allclose(a, other.weights[name], rtol=1e-4, atol=1e-6)


def test_micro_batches_and_workers_do_not_matter() -> None:
    found = []
    for micro_batch, workers in ((N, 1), (7, 1), (1, 2), (16, 2)):
        with trainer(micro_batch=micro_batch, workers=workers) as t:
            t.train_on_batch(X, Y, W, class_weight={0: 0.5, 3: 4})
            found.append(weights(t))
    for other in found[1:]:
        for name, a in found[0].items():
            np.testing.assert_allclose(other[name], a, rtol=1e-4, atol=1e-6)


def test_class_weights_are_sample_weights_by_class() -> None:
    table = np.ones(10, np.float32)
    table[[0, 4]] = 0.25, 3
    by_class = fitted(class_weight={0: 0.25, 4: 3})
    assert_same_bits(by_class, fitted(sample_weight=table[LABELS]))
    both = fitted(sample_weight=W, class_weight={0: 0.25, 4: 3})
    assert_same_bits(both, fitted(sample_weight=W * table[LABELS]))
    assert any((by_class[n] != a).any() for n, a in fitted().items())


def test_balanced_gives_each_class_the_same_weight() -> None:
    """16 of 40 samples are of class 0, 4 of each of six others: 40 / (7 · 16) and 40 / (7 · 4)."""
    found = dict(class_weights("balanced", LABELS, range(N), 10))
    assert found == pytest.approx({0: 40 / 112, **dict.fromkeys(range(1, 7), 40 / 28)})
    assert_same_bits(fitted(class_weight="balanced"), fitted(class_weight=found))


def test_validation_has_sample_weights_and_no_class_weights() -> None:
    split: dict[str, Any] = {"validation_split": 0.25, "stratify": False, "shuffle": False}
    with trainer(optimizer="sgd", learning_rate=1e-30, batch_size=10) as t:
        more: dict[str, Any] = {"sample_weight": W, "class_weight": {0: 100.0}}
        logs = t.fit(X, Y, **split, **more).history
        assert logs["val_loss"][0] == pytest.approx(t.evaluate(X[30:], Y[30:], W[30:])["loss"])
        weighted = np.where(LABELS[:30] == 0, 100, 1) * W[:30]
        assert logs["loss"][0] == pytest.approx(t.evaluate(X[:30], Y[:30], weighted)["loss"])
        logs = t.fit(X, Y, validation_data=(X, Y, W)).history
        assert logs["val_loss"][0] == pytest.approx(t.evaluate(X, Y, W)["loss"])


def test_evaluation_with_weights_changes_no_bit_of_training() -> None:
    with trainer(batch_size=16) as t:
        t.fit(X, Y, epochs=1, seed=3)
        before = t.evaluate(X, Y)["loss"]
        assert t.evaluate(X, Y, W)["loss"] != before
        assert t.evaluate(X, Y)["loss"] == before
        t.fit(X, Y, epochs=1, seed=3)
        found = weights(t)
    with trainer(batch_size=16) as t:
        t.fit(X, Y, epochs=1, seed=3)
        t.fit(X, Y, epochs=1, seed=3)
        assert_same_bits(weights(t), found)


def test_a_trainer_takes_weights_after_training_without() -> None:
    with trainer() as t:
        plain = t.train_on_batch(X, Y)["loss"]
        slots = t.session.build().parameters.step
        assert t.train_on_batch(X, Y, np.zeros(N))["loss"] == 0
        assert t.session.build().parameters.step == slots + 1
        assert t.train_on_batch(X, Y)["loss"] < plain


class Stop(odt.Callback):
    """Ends training after a number of steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        self.left -= 1
        self.trainer.stop_training = not self.left


@pytest.mark.parametrize("steps", [1, 3, 4])
def test_a_stopped_run_resumes_with_the_same_bits(steps: int, tmp_path: Path) -> None:
    path = tmp_path / "c.odt"
    whole = fitted(W, "balanced", epochs=3)
    with trainer(batch_size=16) as t:
        given: dict[str, Any] = {"epochs": 3, "seed": 3, "sample_weight": W}
        t.fit(X, Y, callbacks=[Stop(steps)], save_to=path, class_weight="balanced", **given)
    with odt.Trainer(MODEL, checkpoint=path) as t:
        t.fit(X, Y, epochs=3, sample_weight=W)  # class weights are those of the checkpoint
        assert_same_bits(weights(t), whole)
    with odt.Trainer(MODEL, checkpoint=path) as t:
        differ = "results will differ in bits: .*sample weight [0-9a-f]{8}, now"
        with pytest.warns(odt.OdtWarning, match=differ):
            t.fit(X, Y, epochs=3)


def test_cached_frozen_layers_keep_weights() -> None:
    last: dict[str, Any] = {"trainable": odt.last(2)}
    found = fitted(W, {0: 2.0}, cache_frozen="ram", **last)
    for name, a in fitted(W, {0: 2.0}, **last).items():
        np.testing.assert_allclose(found[name], a, rtol=1e-5, atol=1e-6)


def test_a_cache_of_training_samples_is_not_used_for_others() -> None:
    with trainer(cache_frozen="ram", trainable=odt.last(2)) as t, trainer() as other:
        refused = "`cache_frozen=`: must come with `fit` on arrays or files"
        for call in (t.evaluate, t.train_on_batch, t.test_on_batch, t.forward_backward):
            with pytest.raises(odt.OptionError, match=refused):
                call(X[:10], Y[:10])
        t.fit(X, Y)
        for name, values in t.weights.items():
            other.weights[name] = values
        for weight in (None, W):
            found, expected = t.evaluate(X, Y, weight), other.evaluate(X, Y, weight)
            assert found == pytest.approx(expected, rel=1e-5)


def test_accumulated_gradients_are_those_of_weighted_samples() -> None:
    with trainer() as t, trainer(batch_size=20) as other:
        t.train_on_batch(X, Y, W)
        for part in (slice(20), slice(20, N)):
            other.forward_backward(X[part], Y[part], 0.5, W[part])
        other.apply_gradients()
        for name, a in t.weights.items():
            np.testing.assert_allclose(other.weights[name], a, rtol=1e-5, atol=1e-7)
    with trainer() as t:
        t.forward_backward(X, Y)
        with pytest.raises(
            odt.OptionError, match=r"^`sample_weight=`: must be given while no grad"
        ):
            t.forward_backward(X, Y, sample_weight=W)


def test_batches_of_an_iterable_may_hold_weights() -> None:
    batches = [(X[k : k + 10], Y[k : k + 10], W[k : k + 10]) for k in range(0, N, 10)]
    with trainer(batch_size=10) as t, trainer(batch_size=10) as other:
        t.fit(batches, class_weight={0: 2.0})
        other.fit(X, Y, shuffle=False, sample_weight=W, class_weight={0: 2.0})
        assert_same_bits(weights(t), weights(other))
        assert t.evaluate(batches)["loss"] == pytest.approx(t.evaluate(X, Y, W)["loss"])
        with pytest.raises(odt.OptionError, match=r"^`class_weight=`: .*but got balanced, which"):
            t.fit(batches, class_weight="balanced")
        with pytest.raises(odt.OptionError, match=r"^`class_weight=`: .*but got ndarray"):
            t.fit(batches, class_weight=np.ones(10))  # type: ignore[arg-type]
        with pytest.raises(odt.OptionError, match=r"^`sample_weight=`: must be in the batches"):
            t.fit(batches, sample_weight=W)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"class_weight": {10: 1.0}}, r"class_weight=`: classes must be 0 … 9, but got 10$"),
        ({"class_weight": {"1": 1.0}}, r"class_weight=`: classes must be 0 … 9, but got '1'$"),
        ({"class_weight": {0: -1.0}}, r"finite and 0 or more, but got -1\.0 for class 0$"),
        ({"class_weight": {0: "1"}}, r"finite and 0 or more, but got '1' for class 0$"),
        ({"class_weight": {0: None}}, r"finite and 0 or more, but got None for class 0$"),
        ({"class_weight": np.ones(10)}, r"but got ndarray. dict\(enumerate\(weights\)\) maps"),
        ({"class_weight": "even"}, r"class_weight=`: must be balanced or weights, but got even$"),
        ({"sample_weight": -W - 1}, r"sample_weight: sample 0: weights must be finite and 0 or"),
        ({"sample_weight": W[1:]}, r"sample_weight: .* each of the 40 samples, but got 39\."),
        ({"sample_weight": np.ones((N, 2))}, r"sample_weight: a sample must have 1 elements"),
    ],
)
def test_what_is_no_weight_is_refused(given: dict[str, Any], message: str) -> None:
    with trainer() as t, pytest.raises(odt.OdtError, match=message):
        t.fit(X, Y, **given)


def test_class_weights_need_classes() -> None:
    with (
        trainer(loss="mse") as t,
        pytest.raises(odt.OptionError, match="are one class for each sample, but got others"),
    ):
        t.fit(X, Y, class_weight={0: 1.0})


def odt_run(*words: object) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_line_takes_weights(tmp_path: Path) -> None:
    for name, a in (("x", X), ("y", Y), ("w", W)):
        np.save(tmp_path / f"{name}.npy", a)
    (tmp_path / "c.json").write_text(json.dumps({"0": 0.25, "4": 3}))
    files = ["--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy"]
    files += ["--sample-weight", tmp_path / "w.npy"]
    words = ["train", MODEL, *files, "--epochs", 1, "--batch-size", 16, "--optimizer", "sgd"]
    states = []
    for k, weights in enumerate(("0=0.25,4=3", tmp_path / "c.json")):
        path = tmp_path / f"{k}.odt"
        odt_run(*words, "--class-weight", weights, "--export-checkpoint", path)
        states.append(path.read_bytes())
    assert states[0] == states[1]
    printed = odt_run("eval", MODEL, *files)
    with trainer() as t:
        assert f"loss: [0] {t.evaluate(X, Y, W)['loss']:.4f}" in printed
    (tmp_path / "l.json").write_text("[1, 5]")
    for given, message in (
        ("0=much", "must be balanced, CLASS=WEIGHT,… for different classes such as 0=1"),
        ("0=1,0=2", "must be balanced, CLASS=WEIGHT,… for different classes such as 0=1"),
        ("1", "1: must be weights by class, but was not found"),
        (tmp_path / "l.json", "l.json: must be a JSON object of weights by class"),
        ("10=1", "--class-weight: classes must be 0 … 9, but got 10"),
    ):
        refused = CliRunner().invoke(main, [*map(str, words), "--class-weight", str(given)])
        assert message in refused.output
