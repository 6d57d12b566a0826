"""Ranges of quantized activations that follow training; LiteRT judges the exported files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.integer_files import QuantizedBuilder, full_range
from support.judges import litert
from support.quantized_networks import NAMES, small_net

import odt
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.quantization_rules import check_quantization
from odt.core.runtime.activation_ranges import RATE
from odt.errors import ModelError, OdtWarning, OptionError
from odt.kernels.rows.opdef import Array


def samples(model: Model, count: int = 24) -> tuple[Array, Array]:
    """Inputs of all sizes, and classes that follow from them."""
    (x,) = full_range(model, count, seed=3)
    means = x.reshape(count, -1).astype(float).mean(1)
    return x, np.digitize(means, np.quantile(means, [0.33, 0.67])).astype(np.int32)


def trainer(path: Path, ranges: str | None = "follow", **options: Any) -> odt.Trainer:
    return odt.Trainer(
        path,
        **{
            "loss": "sparse_categorical_crossentropy",
            "optimizer": "adam",
            "learning_rate": 3e-3,
            "batch_size": 8,
            "quant_ranges": ranges,
            **options,
        },
    )


def real_ranges(model: Model) -> dict[int, tuple[float, ...]]:
    """Activation → the smallest and the largest number that it represents."""
    found = {}
    for i, q in model.quantization.items():
        if model.graph.tensors[i].data is None:
            info = np.iinfo(model.graph.tensors[i].spec.dtype)
            found[i] = tuple(
                float((k - q.zero_point[0]) * q.scale[0]) for k in (info.min, info.max)
            )
    return found


def joined_net(path: Path, scale: float = 0.02) -> Model:
    """Two layers, one with RELU, whose outputs are concatenated, and a last layer."""
    net = QuantizedBuilder(seed=2)
    x = net.activation((1, 6), 0.05)
    halves = [
        net.operator(
            "FULLY_CONNECTED",
            (x, net.weights((4, 6), [0.01]), net.bias(4, [0.05 * 0.01])),
            (1, 4),
            0.02,
            -20,
            fused_activation_function=NAMES["RELU"] * k,
        )
        for k in (0, 1)
    ]
    y = net.operator("CONCATENATION", halves, (1, 8), 0.02, -20, axis=1)
    y = net.operator(
        "FULLY_CONNECTED",
        (y, net.weights((3, 8), [0.01]), net.bias(3, [0.02 * 0.01])),
        (1, 3),
        scale,
        0,
    )
    net.write(path, y)
    return read_model(path)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_inner_ranges_follow_and_litert_agrees(kind: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    before = small_net(path, dtype=kind, zero=120 if kind == "uint8" else 0)
    x, labels = samples(before)
    trained = trainer(path)
    trained.fit(x, labels, epochs=20, seed=1)
    trained.export(out)
    after = read_model(out)
    check_quantization(after)  # the scales of biases, too
    assert len(after.data) == len(before.data)
    old, new = real_ranges(before), real_ranges(after)
    conv, pool, flat, logits, y = (n.outputs[0] for n in before.graph.nodes)
    assert new[conv] == new[pool] == new[flat] != old[conv]
    assert new[conv][0] == 0  # of the RELU
    assert new[logits] != old[logits]
    ends = (*before.graph.inputs, y)
    assert [new[i] for i in ends] == [old[i] for i in ends]
    np.testing.assert_allclose(
        trained.predict(x), litert(out, [x])[0] / 256 + (kind == "int8") / 2, atol=20 / 256
    )


def test_concatenated_activations_keep_one_range(tmp_path: Path) -> None:
    """Their RELU stays, because the range of both has numbers below 0."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    before = joined_net(path)
    x = full_range(before, 32, seed=1)[0]
    data = x, np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    found = {}
    for ranges in ("follow", "follow-all"):
        trained = trainer(path, ranges, loss="mean_squared_error")
        trained.fit(*data, epochs=20, seed=1)
        trained.export(out)
        found[ranges] = read_model(out)
        check_quantization(found[ranges])
        q = found[ranges].quantization[before.graph.outputs[0]]
        theirs = (litert(out, [x])[0] - q.zero_point.astype(np.float32)) * q.scale
        np.testing.assert_allclose(trained.predict(x), theirs, atol=4 * q.scale[0])
    one, two, both, y = (n.outputs[0] for n in before.graph.nodes)
    for model in found.values():
        new = real_ranges(model)
        assert new[one] == new[two] == new[both] != real_ranges(before)[both]
    assert real_ranges(found["follow"])[y] == real_ranges(before)[y]
    assert real_ranges(found["follow-all"])[y] != real_ranges(before)[y]


@pytest.mark.parametrize("scale", [0.2, 0.02], ids=["narrows slowly", "widens at once"])
def test_a_step_moves_a_range_to_its_batch(scale: float, tmp_path: Path) -> None:
    """Whatever the number of workers and the size of micro-batches."""
    path = tmp_path / "m.tflite"
    before = joined_net(path, scale)
    x = full_range(before, 8, seed=1)[0]
    data = x, np.zeros((8, 3), np.float32)
    ends = []
    for m, workers in ((8, 1), (2, 1), (3, 2)):
        options = {"loss": "mean_squared_error", "micro_batch": m, "workers": workers}
        trained = trainer(path, "follow-all", learning_rate=1e-9, **options)
        trained.train_on_batch(*data)
        ends.append(
            {i: a.copy() for i, a in trained.session.build().parameters.ranges.ends.items()}
        )
    for other in ends[1:]:
        for i, a in ends[0].items():
            np.testing.assert_array_equal(a, other[i])
    wide = joined_net(tmp_path / "wide.tflite", 0.2)  # cuts nothing off
    outputs = trainer(tmp_path / "wide.tflite", loss="mean_squared_error").predict(x)
    seen = np.array([min(outputs.min(), 0), max(outputs.max(), 0)])
    old = np.array(real_ranges(before)[before.graph.outputs[0]])
    rate = RATE if np.all(abs(old) > abs(seen)) else 1.0
    assert rate == (RATE if before.data == wide.data else 1.0)
    new = [*ends[0].values()][-1]
    np.testing.assert_allclose(new, old + rate * (seen - old), atol=2 * rate * 0.2)


def test_an_untrained_export_has_the_same_bytes(tmp_path: Path) -> None:
    small_net(tmp_path / "m.tflite")
    trainer(tmp_path / "m.tflite", "follow-all").export(tmp_path / "out.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == (tmp_path / "m.tflite").read_bytes()


def test_a_resumed_training_gives_the_same_file(tmp_path: Path) -> None:
    """The checkpoint holds the ranges, and that they follow."""
    path = tmp_path / "m.tflite"
    data = samples(small_net(path))
    options: dict[str, Any] = {"keep_best": True, "monitor": "loss"}
    whole = trainer(path, **options)
    whole.fit(*data, epochs=4, seed=1)
    whole.export(tmp_path / "whole.tflite")
    first = trainer(path, **options)
    checkpoint = tmp_path / "c.odt"
    first.fit(*data, epochs=2, seed=1, save_to=checkpoint)
    second = trainer(path, None, checkpoint=checkpoint, **options)
    second.fit(*data, epochs=4, seed=1)
    second.export(tmp_path / "second.tflite")
    assert (tmp_path / "second.tflite").read_bytes() == (tmp_path / "whole.tflite").read_bytes()
    with pytest.raises(ModelError, match="range"):
        trainer(path, "file", checkpoint=checkpoint).session.build()
    with pytest.raises(ModelError, match="ranges of activations"):
        first.save_checkpoint(tmp_path / "onert.ckpt")


def test_the_best_epoch_has_its_own_ranges(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    data = samples(small_net(path))
    for keep in (False, True):
        trained = trainer(path, keep_best=keep, monitor="loss", learning_rate=1e-3)
        trained.fit(*data, epochs=1, seed=1)
        if keep:  # a second epoch that is far worse
            trained.learning_rate = 10.0
            trained.fit(*data, epochs=2, seed=1)
        trained.export(tmp_path / f"{keep}.tflite")
    assert (tmp_path / "True.tflite").read_bytes() == (tmp_path / "False.tflite").read_bytes()


def test_frozen_activations_keep_their_range(tmp_path: Path) -> None:
    """A cache of the frozen layers gives the same file."""
    path = tmp_path / "m.tflite"
    before = small_net(path)
    files = []
    for cache in (None, "ram"):
        trained = trainer(path, trainable=odt.last(2), cache_frozen=cache, workers=1)
        trained.fit(*samples(before), epochs=3, seed=1)
        trained.export(tmp_path / "out.tflite")
        files.append((tmp_path / "out.tflite").read_bytes())
    assert files[0] == files[1] != path.read_bytes()
    old, new = real_ranges(before), real_ranges(read_model(tmp_path / "out.tflite"))
    moved = [i for i in old if old[i] != new[i]]
    assert moved == [before.graph.nodes[-2].outputs[0]]


def test_a_float_export_has_no_ranges(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    data = samples(small_net(path))
    trained = trainer(path, batch_size=8)
    trained.fit(*data, epochs=1, seed=1)
    trained.export(out, float_weights=True)
    assert not read_model(out).quantization


def test_a_warning_tells_of_ranges_that_cut_values_off(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    x = full_range(joined_net(path), 32, seed=1)[0]
    data = x, np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    words = r"\d+% of the values .* outside the range .* `quant_ranges=\"follow\"`"
    with pytest.warns(OdtWarning, match=words):
        trainer(path, "file", loss="mean_squared_error").fit(*data, epochs=1, seed=1)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        trainer(path, "follow-all", loss="mean_squared_error").fit(*data, epochs=1, seed=1)
    assert not [w for w in found if "outside the range" in str(w.message)]


def test_unknown_words_are_refused(tmp_path: Path) -> None:
    small_net(tmp_path / "m.tflite")
    with pytest.raises(OptionError, match=r"quant_ranges.*`follow-all`.*move"):
        trainer(tmp_path / "m.tflite", "move")


def test_a_float_model_has_no_ranges_to_follow(tmp_path: Path) -> None:
    """The option was ignored."""
    model = ModelBuilder("tflite", seed=1)
    model.write(tmp_path / "m.tflite", model.add_dense(model.add_input((1, 4)), 3))
    with pytest.raises(OptionError, match="`quant_ranges=`: must come with a model whose activ"):
        trainer(tmp_path / "m.tflite", "follow", loss="mean_squared_error")
