"""Batch normalization of ONNX files with the statistics of each batch.

The reference is a network in NumPy with float64, in tests/support/batch_norm_network.py.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.batch_norm_network import (
    MOMENTUM,
    RATE,
    STATISTICS,
    Reference,
    batches,
    constants,
    network,
    weights,
)
from support.onnx_files import OnnxFile, mlp, value

import odt
from odt import federated
from odt.cli.main import main
from odt.errors import OdtError, OptionError

LOSS = odt.SparseCategoricalCrossentropy()


def trainer(path: Path | odt.Model, **options: Any) -> odt.Trainer:
    given = {"batch_size": 8, "batch_norm": "batch", **options}
    return odt.Trainer(path, loss=LOSS, optimizer=odt.SGD(RATE), **given)


def check_equal(path: Path, reference: Reference) -> None:
    stored = constants(path)
    for name, a in reference.w.items():
        np.testing.assert_allclose(stored[name], a, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("training_mode", [0, 1])
def test_losses_weights_and_statistics_are_those_of_the_definition(
    tmp_path: Path, training_mode: int
) -> None:
    path, reference = network(tmp_path / "m.onnx", training_mode), Reference()
    with trainer(path) as t:
        for x, labels in batches(8, 8, 5, 8):  # one batch is short
            loss = t.train_on_batch(x, labels)["loss"]
            assert loss == pytest.approx(reference.step(x, labels), abs=1e-5)
        t.export(tmp_path / "trained.onnx")
    check_equal(tmp_path / "trained.onnx", reference)


def test_images_have_statistics_of_each_channel(tmp_path: Path) -> None:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3, 4, 5)))
    file.outputs.append(value("y", ("N", 2)))
    file.constants({"s": np.ones(3, "f4"), "b": np.zeros(3, "f4"), "w": np.ones((2, 60), "f4")})
    mean, variance = np.array([1, 2, 3], "f4"), np.array([1, 2, 4], "f4")
    file.constants({"m": mean, "v": variance})
    file.add("BatchNormalization", "x", "s", "b", "m", "v", outputs=["n"])
    file.add("Flatten", "n", outputs=["f"])
    file.add("Gemm", "f", "w", transB=1)
    path = file.write(tmp_path / "m.onnx")
    x = np.random.default_rng(2).normal(3, 2, (8, 3, 4, 5)).astype("f4")
    with trainer(path) as t:
        t.train_on_batch(x, np.zeros(8, int))
        t.export(path)
    stored = constants(path)
    np.testing.assert_allclose(stored["m"], 0.9 * mean + 0.1 * x.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(stored["v"], 0.9 * variance + 0.1 * x.var((0, 2, 3)), rtol=1e-5)


def test_frozen_layers_move_their_statistics_too(tmp_path: Path) -> None:
    path, reference = network(tmp_path / "m.onnx"), Reference()
    with trainer(path, trainable=odt.select("w2", "b2")) as t:
        for x, labels in batches(8, 8):
            t.train_on_batch(x, labels)
            reference.step(x, labels, ("w2", "b2"))
        t.export(tmp_path / "trained.onnx")
    check_equal(tmp_path / "trained.onnx", reference)


def test_evaluation_uses_the_statistics_that_moved(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(16))
    with trainer(path) as t:
        before = t.evaluate(x, labels)["loss"]
        t.fit(x, labels, epochs=3)
        after = t.evaluate(x, labels)["loss"]
        predicted = t.predict(x)
        t.export(tmp_path / "trained.onnx")
    assert before == pytest.approx(odt.evaluate(path, x, labels, loss=LOSS).loss, rel=1e-5)
    exported = odt.evaluate(tmp_path / "trained.onnx", x, labels, loss=LOSS).loss
    assert after == pytest.approx(exported, rel=1e-5)
    np.testing.assert_allclose(predicted, odt.predict(tmp_path / "trained.onnx", x), atol=1e-5)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(16))
    with trainer(path) as t:
        t.fit(x, labels, epochs=4)
        t.export(tmp_path / "whole.onnx")
    with trainer(path) as t:
        t.fit(x, labels, epochs=2)
        t.save_checkpoint(tmp_path / "half.odt")
    with odt.Trainer(path, loss=LOSS, checkpoint=tmp_path / "half.odt") as t:
        assert t.session.recipe.info.batch_norm == "batch"
        t.fit(x, labels, epochs=4)
        t.export(tmp_path / "resumed.onnx")
    assert (tmp_path / "whole.onnx").read_bytes() == (tmp_path / "resumed.onnx").read_bytes()


@pytest.mark.parametrize(("first", "second"), [("batch", "fixed"), ("fixed", "batch")])
def test_a_run_cannot_be_resumed_with_other_statistics(
    first: str, second: str, tmp_path: Path
) -> None:
    path, state = network(tmp_path / "m.onnx"), tmp_path / "state.odt"
    with trainer(path, batch_norm=first) as t:
        t.train_on_batch(*next(batches(8)))
        t.save_checkpoint(state)
    resumed = trainer(path, batch_norm=second, checkpoint=state)
    with pytest.raises(OptionError, match=f"batch_norm=.*must be {first}, as .*, but got {second}"):
        resumed.train_on_batch(*next(batches(8)))


def test_federations_average_running_statistics(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(16))
    with trainer(path) as t:
        clients = [
            federated.Client(t, x, labels, samples=part, partition=k)
            for k, part in enumerate((range(8), range(8, 16)))
        ]
        begin = federated.tensors_of(t)
        assert set(STATISTICS) < begin.keys()
        updates = [client.train(begin, 1).tensors for client in clients]
        federated.load_tensors(t, begin)
        history = federated.simulate(
            t, x, labels, clients=2, rounds=1, partition=[0] * 8 + [1] * 8, decay="none"
        )
        t.export(tmp_path / "trained.onnx")
        negative = {n: a - 1000 if n in STATISTICS else a for n, a in begin.items()}
        federated.load_tensors(t, negative)
        assert (federated.tensors_of(t)["variance"] == 0).all()
        assert (federated.tensors_of(t)["mean"] < -900).all()
    exported = constants(tmp_path / "trained.onnx")
    for name in STATISTICS:
        one, other = (update[name] for update in updates)
        assert np.abs(one - other).max() > 1e-3
        np.testing.assert_allclose(exported[name], (one + other) / 2, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(history.tensors[name], exported[name])


def test_merged_checkpoints_have_the_mean_statistics(tmp_path: Path) -> None:
    path, means = network(tmp_path / "m.onnx"), []
    paths = [tmp_path / "1.odt", tmp_path / "2.odt"]
    for state, batch in zip(paths, batches(8, 8), strict=True):
        with trainer(path) as t:
            t.train_on_batch(*batch)
            t.save_checkpoint(state)
            means.append(federated.tensors_of(t)["mean"])
    federated.merge(paths, tmp_path / "merged.odt")
    with trainer(path, checkpoint=tmp_path / "merged.odt") as t:
        merged = federated.tensors_of(t)["mean"]
    np.testing.assert_allclose(merged, (means[0] + means[1]) / 2, rtol=1e-5, atol=1e-6)


def test_each_accumulated_batch_moves_the_statistics(tmp_path: Path) -> None:
    path, w = network(tmp_path / "m.onnx"), weights()
    (x, labels), mean = next(batches(8)), weights()["mean"].astype(np.float64)
    with trainer(path, batch_size=4, accumulate=2) as t:
        t.fit(x, labels, epochs=1, shuffle=False)
        t.export(path)
    for part in (x[:4], x[4:]):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * (part @ w["w1"].T).mean(0)
    np.testing.assert_allclose(constants(path)["mean"], mean, rtol=1e-4, atol=1e-5)


def test_the_plan_says_that_a_batch_is_not_divided(tmp_path: Path) -> None:
    path = str(network(tmp_path / "m.onnx"))
    options = ["--batch-size", "8", "--loss", "sparse-categorical-crossentropy"]
    fixed = CliRunner().invoke(main, ["plan", path, *options]).output
    result = CliRunner().invoke(main, ["plan", path, *options, "--batch-norm", "batch"])
    assert result.exit_code == 0, result.output
    assert "BatchNormalization (node 1) mixes samples" in result.output
    assert "mixes samples" not in fixed
    with pytest.raises(OptionError, match="micro_batch"), trainer(Path(path), micro_batch=2) as t:
        t.train_on_batch(*next(batches(8)))


def test_a_model_keeps_its_statistics_by_default(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(8))
    with trainer(path, batch_norm=None) as t:
        t.train_on_batch(x, labels)
        t.export(tmp_path / "trained.onnx")
    before, after = constants(path), constants(tmp_path / "trained.onnx")
    assert all((before[n] == after[n]).all() for n in STATISTICS)
    assert all((before[n] != after[n]).any() for n in before.keys() - {*STATISTICS})


def test_what_has_no_statistics_of_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"batch_norm=.*without BatchNormalization"):
        trainer(mlp().write(tmp_path / "mlp.onnx"))
    path = network(tmp_path / "m.onnx")
    with pytest.raises(OptionError, match=r"cache_frozen=.*must be left out"):
        trainer(path, trainable=odt.select("w2"), cache_frozen="ram")
    model = odt.lora(path, rank=2)
    with pytest.raises(OptionError, match=r"batch_norm=.*adapters"):
        trainer(model)
    trains = network(tmp_path / "t.onnx", training_mode=1)
    with pytest.raises(OdtError, match=re.escape('train it with `batch_norm="batch"`')):
        trainer(trains, batch_norm="fixed")


@pytest.mark.parametrize("reads_beside", [False, True])
def test_a_bias_before_statistics_of_the_batch_changes_nothing(
    tmp_path: Path, *, reads_beside: bool
) -> None:
    """Its gradient is 0, not rounding, of which Adam would make whole steps; unless others read."""
    rng = np.random.default_rng(3)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 2, 5, 5)))
    file.outputs.append(value("y", ("N", 4)))
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    file.constants(
        {
            "w": rng.normal(size=(4, 2, 3, 3)).astype(np.float32),
            "b": rng.normal(size=4).astype(np.float32),
            **{"gamma": ones, "beta": zeros, "mean": zeros, "variance": ones},
        }
    )
    file.add("Conv", "x", "w", "b", outputs=["c"])
    file.add("BatchNormalization", "c", "gamma", "beta", "mean", "variance", outputs=["n"])
    file.add("Mul", "n", "c" if reads_beside else "n", outputs=["r"])
    file.add("GlobalAveragePool", "r", outputs=["p"])
    file.add("Flatten", "p", outputs=["y"])
    path = file.write(tmp_path / "m.onnx")
    adam = odt.Adam(0.01)
    with odt.Trainer(path, loss=LOSS, optimizer=adam, batch_size=8, batch_norm="batch") as t:
        for _ in range(4):
            x = rng.normal(1, 2, (8, 2, 5, 5)).astype(np.float32)
            t.train_on_batch(x, rng.integers(0, 4, 8))
        t.export(tmp_path / "trained.onnx")
    before, after = constants(path), constants(tmp_path / "trained.onnx")
    assert np.array_equal(before["b"], after["b"]) is not reads_beside
    assert not np.array_equal(before["w"], after["w"])
