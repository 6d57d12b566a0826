"""Weights that train as integers: rounding, memory, resume, export."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.integer_files import full_range
from support.paths import MODELS
from support.quantized_networks import small_net

import odt
from odt.core.formats.reader import read_model
from odt.core.model import dequantize
from odt.core.runtime.integer_weights import IntegerWeights
from odt.core.runtime.parameters import WORK
from odt.errors import OptionError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.library import is_available
from odt.kernels.native.updates import SEED, STEP, make_origin
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.opdef import TILE, Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
INT8 = np.dtype(np.int8)


def sgd(p: Array, g: Array, slots: object) -> None:
    np.subtract(p, g, out=p)


def updated(shape: tuple[int, ...], scale: Array, axis: int, moved: Array) -> Array:
    """By how many steps an update by `moved` steps changes integers 3."""
    first = Quantization(scale, np.zeros(scale.size, np.int64), axis)
    integers = np.full(shape, 3, np.int8)
    gradient = -moved * first.along_axis(len(shape))[0]
    weights = IntegerWeights(WeightQuantization(first, INT8), integers, None)
    work = np.empty((WORK, TILE), np.float32)
    weights.update(sgd, gradient.astype(np.float32).reshape(-1), {}, (1, 2), work)
    return integers.astype(int) - 3


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((6, 3, 3, 2), 0), ((1, 3, 3, 6), 3), ((6, 9, 5000), 0), ((20000, 6), 1), ((4, 6, 3), 1)],
)
def test_each_unit_has_its_scale(shape: tuple[int, ...], axis: int) -> None:
    scale = (2.0 ** -np.arange(6)).astype(np.float32)
    steps = np.random.default_rng(0).integers(-9, 9, shape)
    np.testing.assert_array_equal(updated(shape, scale, axis, steps), steps)


UPDATES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01}),
    ("adam", {"weight_decay": 0.01}),
    ("adamw", {"weight_decay": 0.1}),
    ("rmsprop", {}),
    ("rmsprop", {"momentum": 0.5}),
    ("adagrad", {}),
    ("lion", {"weight_decay": 0.1}),
]


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize(("shape", "axis"), [((6, 30, 50), 0), ((900, 6), 1), ((4, 6, 30), 1)])
@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_compiled_updates_are_those_of_numpy_except_for_rounding(
    name: str, options: dict[str, Any], shape: tuple[int, ...], axis: int
) -> None:
    rng = np.random.default_rng(1)
    rule, attrs = OPTIMIZERS[name], OPTIMIZERS[name].attrs(**options)
    zeros = rng.integers(-5, 5, 6)
    first = Quantization(rng.uniform(0.01, 0.1, 6).astype(np.float32), zeros, axis)
    integers = rng.integers(-128, 128, shape).astype(np.int8)
    gradient = rng.normal(size=integers.size).astype(np.float32)
    assert rule.compiled is not None
    results = []
    for is_compiled in (False, True):
        q = integers.copy()
        weights = IntegerWeights(WeightQuantization(first, INT8), q, None)
        slots = {n: np.zeros(q.size, np.float32) for n in rule.slots(attrs)}
        for step in (1, 2, 3):
            g = gradient * np.float32(step)
            if not is_compiled:

                def update(
                    p: Array, g: Array, parts: Mapping[str, Array], step: int = step
                ) -> None:
                    work = np.empty((rule.work, TILE), np.float32)
                    rule.run(attrs, 0.05, step, p=p, g=g, work=work, **parts)

                key = (7 * 2**32 + 5, step)
                weights.update(update, g, slots, key, np.empty((WORK, TILE), np.float32))
                continue
            origin = make_origin()
            origin[SEED], origin[STEP] = 7 + 2**32, step
            kernel, numbers = rule.compiled(attrs, 0.05, step)
            for at in (slice(0, 100), slice(100, None)):  # as two threads update
                arrays = [a[at] for a in slots.values()]
                values = np.array(numbers, np.float32)
                weights.bind_part(kernel, at, g[at], arrays, values, 5, origin)()
        results.append((q.astype(int), slots))
    (one, slots), (other, others) = results
    assert (one != integers).mean() > 0.2
    assert abs(one - other).max() <= 1
    assert (one != other).mean() < 0.002
    for n, a in slots.items():
        np.testing.assert_allclose(a, others[n], rtol=1e-2, atol=1e-5)


def test_steps_smaller_than_an_integer_count_on_average() -> None:
    moved = updated((200, 300), np.ones(1, np.float32), 0, np.full((200, 300), 0.3))
    assert set(np.unique(moved)) == {0, 1}
    assert moved.mean() == pytest.approx(0.3, abs=0.01)


def test_integers_stay_within_their_limits() -> None:
    moved = updated((1, 4), np.ones(1, np.float32), 0, np.array([[500, -500, 0, 1]]))
    assert moved.tolist() == [[124, -130, 0, 1]]


def samples(path: Path) -> tuple[Array, Array]:
    (x,) = full_range(read_model(str(path)), 48, seed=3)
    means = x.reshape(48, -1).astype(float).mean(1)
    return x, np.digitize(means, np.quantile(means, [0.33, 0.67])).astype(np.int32)


def trainer(path: Path, **options: object) -> odt.Trainer:
    given = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 8, **options}
    loss = "sparse_categorical_crossentropy"
    return odt.Trainer(path, loss=loss, **{"qas": True, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam", "learning_rate": 3e-3}])
def test_integers_learn_as_floats_do(options: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    small_net(path)
    x, y = samples(path)
    losses = []
    for qas in (True, False):
        run = trainer(path, qas=qas, **options)
        before = run.evaluate(x, y)["loss"]
        run.fit(x, y, epochs=15, seed=1)
        losses.append(run.evaluate(x, y)["loss"] / before)
    assert losses[0] < 0.8
    assert losses[0] < losses[1] + 0.1


def test_weights_take_a_byte_and_scales_stay(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    run = odt.Trainer(RESNET, optimizer="sgd", learning_rate=1e-4, qas=True)
    weights = {i: a for i, a in run.session.build().parameters.tensors.items() if a.ndim > 1}
    assert {a.dtype.name for a in weights.values()} == {"int8"}
    assert run.session.build().memory().parameters < 1.02 * sum(
        a.nbytes for a in run.session.build().parameters.tensors.values()
    )
    (x,) = full_range(read_model(str(RESNET)), 32, seed=1)
    run.fit(x, np.eye(10, dtype=np.float32)[np.arange(32) % 10], epochs=2, seed=1)
    run.export(out)
    before, after = read_model(str(RESNET)), read_model(str(out))
    assert len(before.data) == len(after.data)
    changed = 0
    for i in weights:
        np.testing.assert_array_equal(before.quantization[i].scale, after.quantization[i].scale)
        old, new = before.graph.tensors[i].data, after.graph.tensors[i].data
        assert old is not None
        assert new is not None
        changed += int(np.not_equal(old, new).sum())
        np.testing.assert_array_equal(
            after.graph.tensors[i].data, run.session.build().parameters.tensors[i]
        )
    assert changed > 100


def test_large_weights_that_stay_are_the_integers_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward phases read their real numbers, as those of float weights."""
    (x,) = full_range(read_model(str(RESNET)), 16, seed=1)
    found, sizes = [], []
    for least in (dequantize.LARGE, 2**40):
        monkeypatch.setattr(dequantize, "LARGE", least)
        run = odt.Trainer(
            RESNET,
            optimizer="sgd",
            learning_rate=1e-3,
            batch_size=16,
            micro_batch=4,
            trainable=odt.Trainable(bias_only=True),
            qas=True,
        )
        run.fit(x, np.eye(10, dtype=np.float32)[np.arange(16) % 10], epochs=2, seed=1)
        tensors = run.session.recipe.graph.tensors
        sizes.append([t.spec.nbytes for t in tensors if t.decoder])
        run.export(tmp_path / "out.tflite")
        found.append((tmp_path / "out.tflite").read_bytes())
    assert min(sizes[0]) >= 2**15
    assert len(sizes[0]) == 3
    assert not sizes[1]
    assert found[0] == found[1]


@pytest.mark.usefixtures("training_alone")
@pytest.mark.parametrize(
    "options",
    [
        {"sparse": {"CONV_2D": 0.5, "FULLY_CONNECTED": 0.5}},
        {"trainable": odt.Trainable(bias_only=True)},
        {"cache_frozen": "ram", "trainable": odt.last(2)},
        {"memory_budget": "60MB"},
        {"micro_batch": 8, "workers": 1},
    ],
)
def test_options_of_partial_training_work(options: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    small_net(path)
    run = trainer(path, learning_rate=0.01, **options)
    x, y = samples(path)
    before = trainer(path).evaluate(x, y)["loss"]
    run.fit(x, y, epochs=15, seed=1)
    assert run.evaluate(x, y)["loss"] < before
    run.export(tmp_path / "out.tflite")


def test_a_resumed_run_has_the_same_integers(tmp_path: Path) -> None:
    path, half = tmp_path / "m.tflite", tmp_path / "half.odt"
    small_net(path)
    x, y = samples(path)
    whole, first = trainer(path), trainer(path)
    whole.fit(x, y, epochs=4, seed=5)
    first.fit(x, y, epochs=2, seed=5)
    first.save_checkpoint(half)
    second = trainer(path, checkpoint=half)
    second.fit(x, y, epochs=4, seed=5)
    for i, a in whole.session.build().parameters.tensors.items():
        np.testing.assert_array_equal(second.session.build().parameters.tensors[i], a)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ema": 0.9}, "must come without `ema=`"),
        ({"optimizer": "adafactor"}, "must come with an optimizer that updates each value"),
    ],
)
def test_what_needs_floats_is_refused(
    options: dict[str, object], message: str, tmp_path: Path
) -> None:
    small_net(tmp_path / "m.tflite")
    with pytest.raises(OptionError, match=message):
        trainer(tmp_path / "m.tflite", **options)


def test_a_float_model_is_refused() -> None:
    with pytest.raises(OptionError, match="must come with a model whose activations are integers"):
        trainer(MODELS / "mlperf-tiny-resnet8-cifar10.tflite")
