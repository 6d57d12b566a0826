"""`import odt`: Keras' quick start, a PyTorch-style loop, and the same bits as `odt train`."""

import csv
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.core.training import trainer as core

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
INPUT = odt.load_model(MODEL).inputs[0]
CLASSES = odt.load_model(MODEL).outputs[0].shape[-1]
X = RNG.normal(size=(90, *INPUT.shape[1:])).astype(np.float32)
Y = np.eye(CLASSES, dtype=np.float32)[RNG.integers(0, CLASSES, 90)]
OPTIONS: dict[str, Any] = {"optimizer": odt.Adam(0.01), "batch_size": 16, "metrics": ["accuracy"]}


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(MODEL, **{**OPTIONS, **options})


def test_the_quick_start_of_keras_runs(tmp_path: Path) -> None:
    model = odt.load_model(MODEL)
    assert "FULLY_CONNECTED" in model.summary()
    with odt.Trainer(model, **OPTIONS) as trained:
        early = odt.EarlyStopping(patience=20)
        history = trained.fit(X, Y, epochs=4, validation_split=0.2, seed=1, callbacks=[early])
        losses = history.history["loss"]
        assert len(losses) == 4
        assert losses[-1] < losses[0]
        assert {"accuracy", "val_loss", "val_accuracy"} < history.history.keys()
        before = trained.evaluate(X, Y)
        assert trained.predict(X).shape == (90, CLASSES)
        trained.export(tmp_path / "trained.circle")
    with trainer() as again:
        assert again.evaluate(X, Y) != before
    with odt.Trainer(tmp_path / "trained.circle", **OPTIONS) as loaded:
        assert loaded.evaluate(X, Y) == pytest.approx(before, rel=1e-5)


def test_fit_gives_the_bits_of_the_command_line(tmp_path: Path) -> None:
    X.tofile(tmp_path / "x.bin")
    Y.tofile(tmp_path / "y.bin")
    line = ["train", str(MODEL), "--load-input", str(tmp_path / "x.bin"), "--load-expected"]
    line += [str(tmp_path / "y.bin"), "--epochs", "3", "--batch-size", "16", "--shuffle"]
    line += ["--seed", "5", "--learning-rate", "0.01", "--validation-split", "0.2"]
    result = CliRunner().invoke(main, [*line, "--export-circle", str(tmp_path / "a.circle")])
    assert result.exit_code == 0, result.output
    with trainer() as trained:
        trained.fit(X, Y, epochs=3, seed=5, validation_split=0.2)
        trained.export(tmp_path / "b.circle")
    assert (tmp_path / "a.circle").read_bytes() == (tmp_path / "b.circle").read_bytes()


class Batches:
    """What a torch DataLoader is to a trainer: it iterates over batches and has a length."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for at in range(0, 80, 16):
            yield X[at : at + 16], Y[at : at + 16]

    def __len__(self) -> int:
        return 5


class Samples:
    """A map-style data set."""

    def __getitem__(self, k: int) -> tuple[Any, Any]:
        return X[k], Y[k]

    def __len__(self) -> int:
        return 80


class Tensor:
    """An array of another package: `size` is a method, as of tensors of PyTorch."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype)

    def size(self) -> tuple[int, ...]:
        return np.shape(self.values)


class TensorSamples(Samples):
    """A map-style data set of tensors, as TensorDataset of PyTorch."""

    def __getitem__(self, k: int) -> tuple[Any, Any]:
        return Tensor(X[k]), Tensor(Y[k])


@pytest.mark.parametrize("data", [Batches(), Samples(), TensorSamples()])
def test_batches_and_samples_train_like_arrays_in_order(data: object) -> None:
    with trainer() as one, trainer() as other:
        one.fit(X[:80], Y[:80], epochs=2, shuffle=False)
        history = other.fit(data, epochs=2, validation_data=data).history
        assert history["val_loss"][1] == other.evaluate(data)["loss"]
        assert history.keys() >= {"val_accuracy"}
        for name, values in one.weights.items():
            np.testing.assert_array_equal(other.weights[name], values)


@pytest.mark.parametrize(
    ("options", "fit_options", "message"),
    [
        (
            {"keep_best": True},
            {"max_steps": 3, "save_to": "a.odt", "validation_split": 0.1, "shuffle": False},
            "`max_steps=`, `validation_split=`, `save_to=`, `keep_best=`: must be left out",
        ),
        (
            {"schedule": odt.ReduceOnPlateau()},
            {},
            "`schedule=`: must not be a ReduceOnPlateau with an iterable of batches. Use the callb",
        ),
        ({}, {"class_weight": "balanced"}, "`class_weight=`: must be weights by class"),
    ],
)
def test_batches_refuse_what_needs_all_samples(
    options: dict[str, Any], fit_options: dict[str, Any], message: str
) -> None:
    with (
        odt.Trainer(MODEL, **options) as trained,
        pytest.raises(odt.OptionError, match=message),
    ):
        trained.fit(Batches(), **fit_options)


def test_two_names_of_a_metric_leave_those_of_others() -> None:
    names = ["accuracy", "categorical_accuracy", "auc"]
    with trainer(metrics=names) as one, trainer(metrics=["acc", "auc"]) as other:
        logs, expected = one.evaluate(X, Y), other.evaluate(X, Y)
    assert list(logs) == ["loss", "accuracy", "auc"]
    assert [*logs.values()] == [*expected.values()]


def test_metrics_of_batches_are_those_of_all_samples_together() -> None:
    names = ["f1_score", "auc", "rmse", "r2"]  # not the mean of the values of batches
    with trainer(metrics=names, optimizer=odt.SGD(1e-9), reduction="sum") as one:
        whole = one.evaluate(X[:80], Y[:80])
        trained = one.fit(Batches(), epochs=1).history
        found = one.evaluate(Batches())
        assert {name: found[name] for name in names} == pytest.approx(
            {name: whole[name] for name in names}
        )
        assert {name: trained[name][0] for name in names} == pytest.approx(
            {name: whole[name] for name in names}, rel=1e-4
        )


def test_a_loop_of_ones_own_accumulates_gradients() -> None:
    with trainer(optimizer=odt.SGD(0.1)) as whole, trainer(optimizer=odt.SGD(0.1)) as parts:
        whole.train_on_batch(X[:16], Y[:16])
        for at in (0, 8):
            parts.forward_backward(X[at : at + 8], Y[at : at + 8], scale=0.5)
        assert parts.gradients.keys() == parts.weights.keys()
        parts.apply_gradients()
        assert not parts.gradients
        for name, values in whole.weights.items():
            np.testing.assert_allclose(parts.weights[name], values, 1e-5, 1e-6)


def test_weights_are_set_in_place_with_checks() -> None:
    with trainer() as trained:
        name = next(iter(trained.weights))
        trained.weights[name] = np.zeros(trained.weights[name].shape)
        assert not trained.weights[name].any()
        with pytest.raises(odt.DataError, match=r"must be \(.*float32, but got \(1,\)"):
            trained.weights[name] = np.zeros(1)


def test_callbacks_follow_the_protocol_of_keras(tmp_path: Path) -> None:
    calls: list[str] = []
    log = odt.LambdaCallback(
        on_train_begin=lambda logs: calls.append("begin"),
        on_epoch_begin=lambda epoch, logs: calls.append(f"epoch {epoch}"),
        on_train_batch_end=lambda batch, logs: calls.append(f"batch {batch}"),
        on_epoch_end=lambda epoch, logs: calls.append(f"end {epoch}"),
        on_train_end=lambda logs: calls.append("end"),
    )
    saved = odt.ModelCheckpoint(tmp_path / "{epoch:02d}.circle", save_best_only=True)
    lines = odt.CSVLogger(tmp_path / "log.csv")
    with trainer() as trained:
        trained.fit(X[:40], Y[:40], epochs=2, validation_split=0.2, callbacks=[log, saved, lines])
    once = ["batch 0", "batch 1"]
    assert calls == ["begin", "epoch 0", *once, "end 0", "epoch 1", *once, "end 1", "end"]
    assert (tmp_path / "01.circle").exists()
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert float(rows[1]["val_loss"]) > 0
    with pytest.raises(odt.OptionError, match=r"must be one character, .* but got '::'"):
        odt.CSVLogger("log.csv", separator="::")
    unnamed = odt.ModelCheckpoint("{los}.odt")
    with (
        trainer() as trained,
        pytest.raises(odt.OptionError, match="`filepath=`: must name values"),
    ):
        trained.fit(X[:40], Y[:40], callbacks=unnamed)


def test_early_stopping_restores_the_best_weights() -> None:
    stop = odt.EarlyStopping("loss", patience=1, mode="max", restore_best_weights=True)
    with trainer() as trained:
        history = trained.fit(X, Y, epochs=9, callbacks=[stop])
        assert len(history.epoch) == 2  # the loss falls, which counts as worse here
        assert (stop.best_epoch, stop.stopped_epoch) == (0, 1)
        trained.fit(X, Y, callbacks=[stop])
        assert (stop.best_epoch, stop.stopped_epoch) == (0, 0)  # of the second run


def test_a_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    with trainer() as whole:
        whole.fit(X, Y, epochs=4, seed=3)
        wanted = {name: values.copy() for name, values in whole.weights.items()}
    with trainer() as first:
        first.fit(X, Y, epochs=2, seed=3, save_to=tmp_path / "state.odt")
    with trainer(checkpoint=tmp_path / "state.odt") as second:
        second.fit(X, Y, epochs=4)
        for name, values in wanted.items():
            np.testing.assert_array_equal(second.weights[name], values)


def test_trainers_in_threads_give_the_bits_of_one_alone() -> None:
    found: dict[int, dict[str, Any]] = {}

    def run(k: int) -> None:
        with trainer() as trained:
            trained.fit(X, Y, epochs=3, seed=k % 2)
            found[k] = {name: values.copy() for name, values in trained.weights.items()}

    run(0)
    run(1)
    threads = [threading.Thread(target=run, args=(k,)) for k in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in (2, 3):
        for name, values in found[k % 2].items():
            np.testing.assert_array_equal(found[k][name], values)


def test_only_the_selected_weights_train() -> None:
    with trainer(trainable=odt.last(2)) as trained:
        assert len(trained.weights) == 2
    with trainer(trainable=odt.bias_only()) as trained:
        assert all(a.ndim == 1 for a in trained.weights.values())


def test_plan_and_check_ask_before_training() -> None:
    assert odt.plan(MODEL, batch_size=8).peak > odt.plan(MODEL, batch_size=8, workers=1).arenas
    for model in (MODEL, MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"):  # its weights are int8
        found = odt.check(model, batch_size=4)
        assert found, found.findings


@pytest.mark.parametrize("options", [{"clip_norm": 1e-3}, {"clip_value": 1e-3}, {"ema": 0.9}])
def test_check_tests_gradients_whatever_training_makes_of_them(options: dict[str, Any]) -> None:
    found, plain = odt.check(MODEL, batch_size=8, **options), odt.check(MODEL, batch_size=8)
    assert found.trains
    assert found.findings == plain.findings


def test_check_takes_a_step_of_a_quantized_model() -> None:
    """Its moving averages, which evaluation reads in training, would hide all steps."""
    found = odt.check(MODELS / "mlperf-tiny-kws-dscnn-int8.tflite", batch_size=4)
    assert found.trains, found.findings
    assert found.findings[-1].startswith("one step: the loss falls")


@pytest.mark.parametrize("kind", [list, tuple])
def test_arguments_are_lists_or_tuples(kind: Callable[[list[Any]], Any]) -> None:
    options: dict[str, Any] = {
        "batch_size": 8,
        "metrics": kind(["accuracy"]),
        "output_losses": kind([kind(["0", "mean_squared_error"])]),
        "loss_weights": kind([kind(["0", 0.5])]),
        "sparse": kind([kind(["fc2_w", 0.5])]),
        "trainable": odt.Trainable(
            operators=kind([0, 1]), patterns=kind(["fc*"]), freeze=kind(["fc1_w"])
        ),
    }
    with odt.Trainer(MODEL, **options) as trained:
        found = trained.fit(X[:88], Y[:88]).history
        assert trained.weights.keys() == {"fc1_b", "fc2_w", "fc2_b"}
    assert found.keys() == {"loss", "accuracy"}
    assert odt.plan(MODEL, **options).parameters
    assert odt.check(MODEL, **options)
    info = trained.session.recipe.info
    assert info.sparse[0][1] != tuple(range(CLASSES))
    again = replace(info, trainable_tensors=kind([*(info.trainable_tensors or ())]))
    assert again == info
    with core.Trainer(trained.session.recipe.graphs, again) as rebuilt:
        assert rebuilt.weights().keys() == set(info.trainable_tensors or ())


def test_one_name_needs_no_sequence() -> None:
    selected = odt.Trainable(patterns="fc2*", freeze="fc2_b")
    with odt.Trainer(MODEL, metrics="accuracy", trainable=selected) as trained:
        assert trained.weights.keys() == {"fc2_w"}
        assert "accuracy" in trained.evaluate(X, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_frozen": "gpu"}, "must be one of `ram`, `disk`, but got gpu"),
        ({"cache_frozen": "ram", "cache_dtype": "int8"}, "must be one of `float32`, `float16`"),
        ({"cache_dtype": "float16"}, "must come with"),
    ],
)
def test_an_unknown_cache_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(odt.OptionError, match=message):
        trainer(**options)


def test_training_info_and_new_heads(tmp_path: Path) -> None:
    info = odt.TrainingInfo(optimizer="sgd", learning_rate=0.5, loss="mean_squared_error")
    odt.write_circle_plus(MODEL, tmp_path / "plus.circle", info)
    stored = odt.read_training_info(tmp_path / "plus.circle")
    assert stored is not None
    assert stored.learning_rate == 0.5
    head = odt.replace_head(MODEL, classes=3)
    assert head.outputs[0].shape == (1, 3)
    head.save(tmp_path / "head.circle")
    assert odt.load_model(tmp_path / "head.circle").outputs[0].shape == (1, 3)


def test_samples_that_no_batch_holds_are_named() -> None:
    with trainer() as trained, pytest.warns(odt.OdtWarning, match="10 of 90 samples"):
        trained.fit(X, Y, drop_last=True)


def test_a_last_batch_that_is_not_full_is_a_step() -> None:
    """Each step takes the mean over its own samples, an epoch's loss is that of all."""
    with trainer() as fitted, trainer() as by_hand:
        history = fitted.fit(X, Y, shuffle=False)
        losses = [
            by_hand.train_on_batch(X[at : at + 16], Y[at : at + 16])["loss"]
            for at in range(0, 90, 16)
        ]
        sizes = [min(16, 90 - at) for at in range(0, 90, 16)]
        assert sizes[-1] == 10
        assert history.history["loss"][0] == pytest.approx(np.average(losses, weights=sizes))
        for name, weight in fitted.weights.items():
            assert np.array_equal(weight, by_hand.weights[name])


def test_an_incomplete_batch_resumes_bit_for_bit(tmp_path: Path) -> None:
    state = tmp_path / "state.odt"
    with trainer() as whole, trainer() as first:
        whole.fit(X, Y, epochs=3, seed=2, drop_last=False)
        first.fit(X, Y, epochs=1, seed=2, save_to=state)
        with trainer(checkpoint=state) as second:
            second.fit(X, Y, epochs=3)
            for name, weight in whole.weights.items():
                assert np.array_equal(weight, second.weights[name])


def test_the_trainer_loads_only_what_training_needs() -> None:
    slow = {"click", "h5py", "tqdm", "numpy.random"}
    line = f"import sys, odt; odt.Trainer; print({slow} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_arrays_are_opened_without_masked_arrays() -> None:
    line = (
        "import sys, numpy as np, odt\n"
        f"trainer = odt.Trainer({str(MODEL)!r}, loss='mean_squared_error', batch_size=16)\n"
        f"trainer.train_on_batch(np.zeros({X[:16].shape}, 'f'), np.zeros({Y[:16].shape}, 'f'))\n"
        "print('numpy.ma' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_trained_model_gets_a_tenth_of_the_default_rate(tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 16}
    with odt.Trainer(MODEL, **options) as fresh:
        fresh.fit(X, Y, epochs=3, seed=1)
        assert fresh.learning_rate == 0.001
        fresh.export(tmp_path / "trained.circle")
    trained = tmp_path / "trained.circle"
    with odt.Trainer(trained, **options) as tuned:
        with pytest.warns(odt.OdtWarning, match="already trained"):
            history = tuned.fit(X, Y)
        assert tuned.learning_rate == pytest.approx(0.0001)
        assert history.start["loss"] < 1
    chosen_rates: list[dict[str, Any]] = [{"learning_rate": 0.001}, {"optimizer": odt.Adam(0.001)}]
    for given in chosen_rates:
        with odt.Trainer(trained, **options, **given) as chosen:
            chosen.fit(X, Y)
            assert chosen.learning_rate == 0.001
    with odt.Trainer(trained, **options) as kept:
        kept.fit(X, Y, fine_tune=False)
        assert kept.learning_rate == 0.001
