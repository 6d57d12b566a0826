"""The fake-quantized graph, trained and exported; LiteRT judges."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range
from support.judges import litert
from support.paths import MODELS
from support.quantized_networks import NAMES, small_net

import odt
from odt.core.formats.reader import read_model
from odt.core.integers.real_graph import real_graph
from odt.core.model.model import Model
from odt.core.recipe.resolve import number_of_last
from odt.errors import DataError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
KWS = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"


def samples(model: Model, count: int) -> tuple[Array, Array]:
    """Inputs of all sizes, and classes that follow from them."""
    (x,) = full_range(model, count, seed=3)
    means = x.reshape(count, -1).astype(float).mean(1)
    return x, np.digitize(means, np.quantile(means, [0.33, 0.67])).astype(np.int32)


def trained(path: Path, out: Path, *, epochs: int = 2, count: int = 24) -> odt.Trainer:
    trainer = odt.Trainer(
        path,
        loss="sparse_categorical_crossentropy",
        optimizer="adam",
        learning_rate=1e-3,
        batch_size=8,
    )
    trainer.fit(*samples(read_model(path), count), epochs=epochs, seed=1)
    trainer.export(out)
    return trainer


def check_litert(trainer: odt.Trainer, out: Path, x: Array, steps: float) -> None:
    """LiteRT computes from the exported file what the trainer computes, up to steps of 1 / 256."""
    model = read_model(out)
    (y,) = litert(out, [x])
    quantization = model.quantization.get(model.graph.outputs[0])
    if quantization is not None:
        y = (y.astype(np.float32) - quantization.zero_point) * quantization.scale
    np.testing.assert_allclose(trainer.predict(x), y, atol=steps / 256)


def test_the_graph_rounds_each_activation_once(tmp_path: Path) -> None:
    """RELU is the lower limit of the integers; pooling and RESHAPE keep what was rounded."""
    graph = real_graph(small_net(tmp_path / "m.tflite")).graph
    assert [n.op for n in graph.nodes] == [
        "INTEGER_DEQUANTIZE",
        *("CONV_2D", "FAKE_QUANT", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "FAKE_QUANT"),
        "SOFTMAX",
    ]
    rounding = graph.nodes[2].options
    assert (rounding["lo"], rounding["hi"]) == (0, 255)
    assert rounding["scale"] == pytest.approx(0.015)
    assert not graph.nodes[1].options["fused_activation_function"]


def test_a_fused_activation_within_the_limits_stays(tmp_path: Path) -> None:
    net = QuantizedBuilder()
    x = net.activation((1, 4), 0.1)
    w = net.weights((2, 4), [0.01])
    y = net.operator(
        "FULLY_CONNECTED", (x, w, -1), (1, 2), 0.1, 0, fused_activation_function=NAMES["RELU6"]
    )
    net.write(tmp_path / "m.tflite", y)
    _, layer, rounding = real_graph(read_model(tmp_path / "m.tflite")).graph.nodes
    assert layer.options["fused_activation_function"] == NAMES["RELU6"]
    assert (rounding.options["lo"], rounding.options["hi"]) == (-128, 127)


@pytest.mark.parametrize("path", [RESNET, KWS], ids=lambda p: p.stem)
def test_an_untrained_export_has_the_same_bytes(path: Path, tmp_path: Path) -> None:
    trainer = odt.Trainer(path, batch_size=8)
    trainer.export(tmp_path / "out.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", [RESNET, KWS], ids=lambda p: p.stem)
def test_a_trained_export_runs_in_litert_as_in_training(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    trainer = trained(path, out)
    before, after = read_model(path), read_model(out)
    assert len(after.data) == len(before.data)
    kinds = [(n.op, n.inputs, n.outputs, n.options) for n in before.graph.nodes]
    assert kinds == [(n.op, n.inputs, n.outputs, n.options) for n in after.graph.nodes]
    assert [t.spec for t in before.graph.tensors] == [t.spec for t in after.graph.tensors]
    for i, tensor in enumerate(after.graph.tensors):
        if tensor.data is None and i in before.quantization:
            np.testing.assert_array_equal(after.quantization[i].scale, before.quantization[i].scale)
    changed = sum(
        t.data is not None and bool((t.data != u.data).any())
        for t, u in zip(before.graph.tensors, after.graph.tensors, strict=True)
    )
    assert changed >= len(before.graph.nodes)
    check_litert(trainer, out, samples(before, 16)[0], 1.01)


@pytest.mark.parametrize("floats", [False, True], ids=["int8 ends", "float ends"])
@pytest.mark.parametrize(("kind", "groups"), [("int8", 1), ("int8", 2), ("uint8", 1)])
def test_small_networks_train_and_agree_with_litert(
    floats: bool, kind: str, groups: int, tmp_path: Path
) -> None:
    """uint8 is the older form: one scale for all weights, with a zero point."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    zero = 120 if kind == "uint8" else 0
    model = small_net(path, floats=floats, dtype=kind, zero=zero, groups=groups)
    trainer = trained(path, out, epochs=20)
    x, labels = samples(model, 24)
    first = odt.Trainer(path, loss="sparse_categorical_crossentropy")
    assert trainer.evaluate(x, labels)["loss"] < 0.85 * first.evaluate(x, labels)["loss"]
    check_litert(trainer, out, x, 1.01)


def test_real_numbers_are_quantized_when_they_are_read(tmp_path: Path) -> None:
    model = small_net(tmp_path / "m.tflite")
    x, _ = samples(model, 5)
    real = (x.astype(np.float32) - 3) * np.float32(0.02)
    trainer = odt.Trainer(tmp_path / "m.tflite")
    wanted = trainer.predict(x)
    np.testing.assert_array_equal(trainer.predict(real), wanted)
    np.testing.assert_array_equal(trainer.predict(real.astype(np.float64) + 0.009), wanted)
    np.save(tmp_path / "x.npy", real)
    np.testing.assert_array_equal(trainer.predict(tmp_path / "x.npy"), wanted)
    with pytest.raises(DataError, match="must be finite"):
        trainer.predict(np.full_like(real, np.nan))


def test_a_bias_that_outgrows_32_bits_gets_a_larger_scale(tmp_path: Path) -> None:
    """Weights near 0 have scales near 0, and the scale of the bias is that times the input's."""
    net = QuantizedBuilder(seed=1)
    x = net.activation((1, 4), 0.1)
    w = net.weights((2, 4), [1e-12, 0.01])
    y = net.operator("FULLY_CONNECTED", (x, w, net.bias(2, [1e-13, 1e-3])), (1, 2), 0.05)
    net.write(tmp_path / "m.tflite", y)
    trainer = odt.Trainer(
        tmp_path / "m.tflite",
        loss="mean_squared_error",
        optimizer="sgd",
        learning_rate=0.5,
        trainable=odt.Trainable(bias_only=True),
    )
    data = np.zeros((8, 4), np.float32), np.full((8, 2), 2.0, np.float32)
    trainer.fit(*data, epochs=40, seed=0)
    trainer.export(tmp_path / "out.tflite")
    np.testing.assert_allclose(
        litert(tmp_path / "out.tflite", [np.zeros((1, 4))])[0] * 0.05, 2, 0.02
    )


def test_a_bias_of_64_bits_keeps_the_scale(tmp_path: Path) -> None:
    net = QuantizedBuilder(seed=1)
    x = net.activation((1, 4), 0.1, dtype="int16")
    w, bias = net.weights((2, 4), [1e-9, 0.01]), net.add_constant(np.array([2**40, 5], np.int64))
    net.quantize(bias, [1e-10, 1e-3], [0, 0])
    y = net.operator("FULLY_CONNECTED", (x, w, bias), (1, 2), 0.05, dtype="int16")
    net.write(tmp_path / "m.tflite", y)
    odt.Trainer(tmp_path / "m.tflite", loss="mean_squared_error").export(tmp_path / "out.tflite")
    before, after = (read_model(tmp_path / name) for name in ("m.tflite", "out.tflite"))
    np.testing.assert_array_equal(after.graph.tensors[w].data, before.graph.tensors[w].data)
    np.testing.assert_array_equal(after.quantization[w].scale, before.quantization[w].scale)
    np.testing.assert_array_equal(after.graph.tensors[bias].data, np.array([2**40, 5]))


@pytest.mark.parametrize("most", [1, 3000])
def test_layers_of_other_scales_may_share_a_bias(most: int, tmp_path: Path) -> None:
    """Its integers, which are all 0 if `most` is 1, stay; the real numbers are those of a layer."""
    net, path, out = QuantizedBuilder(seed=1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    x = net.activation((1, 6), 0.05, 3)
    bias = net.add_constant(net.rng.integers(1 - most, most, 6).astype(np.int32))
    net.quantize(bias, [0.05 * 0.004], [0])
    for scale in (0.004, 0.003):
        w = net.weights((6, 6), [scale])
        x = net.operator("FULLY_CONNECTED", (x, w, bias), (1, 6), 0.06, 1)
    net.write(path, x)
    data = full_range(read_model(path), 32)[0]
    y = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
    trainer = odt.Trainer(path, loss="mean_squared_error", learning_rate=1e-2, batch_size=8)
    trainer.export(out)
    assert out.read_bytes() == path.read_bytes()
    before = trainer.evaluate(data, y)["loss"]
    trainer.fit(data, y, epochs=5, seed=1)
    assert trainer.evaluate(data, y)["loss"] < before
    trainer.export(out)
    ours = np.rint(trainer.predict(data) / np.float32(0.06)) + 1
    np.testing.assert_array_equal(litert(out, [data])[0], ours)
    if most > 1:
        with pytest.raises(UnsupportedError, match="layers of other scales share it"):
            trainer.export(out, float_weights=True)
        return
    trainer.export(out, float_weights=True)
    small = (data.astype(np.float32) - 3) * np.float32(0.0025)  # within the ranges of the integers
    np.testing.assert_allclose(litert(out, [small])[0], trainer.predict(small), atol=0.1)


def test_a_float_export_has_no_integers_left(tmp_path: Path) -> None:
    for floats in (False, True):
        path, out = tmp_path / f"{floats}.tflite", tmp_path / "out.tflite"
        model = small_net(path, floats=floats)
        trainer = odt.Trainer(path, batch_size=8)
        x, _ = samples(model, 8)
        trainer.export(out, float_weights=True)
        exported = read_model(out)
        assert not exported.quantization
        kinds = {t.spec.dtype.name for t in exported.graph.tensors if t.spec.size}
        assert kinds == {"float32"}
        assert not {"QUANTIZE", "DEQUANTIZE"}.intersection(n.op for n in exported.graph.nodes)
        real = x if floats else (x.astype(np.float32) - 3) * np.float32(0.02)
        small = real * np.float32(0.05)  # within the ranges of the integers
        np.testing.assert_allclose(litert(out, [small])[0], trainer.predict(small), atol=0.1)
        weights = odt.load_model(out).parameters
        for name, values in odt.load_model(path).parameters.items():
            np.testing.assert_array_equal(weights[name], values)


def test_a_float_export_of_an_output_that_is_read_in_another_scale(tmp_path: Path) -> None:
    """In the float file, the output and what the second layer reads are one tensor."""
    net, path, out = QuantizedBuilder(seed=1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    x = net.activation((1, 6), 0.05)
    y = net.operator("FULLY_CONNECTED", (x, net.weights((4, 6), [0.01]), -1), (1, 4), 0.1)
    other = net.operator("QUANTIZE", (y,), (1, 4), 0.12, 4)
    z = net.operator("FULLY_CONNECTED", (other, net.weights((2, 4), [0.01]), -1), (1, 2), 0.1)
    real = [net.add_operator("DEQUANTIZE", (i,), net.graph.tensors[i].shape) for i in (y, z)]
    net.write(path, *real)
    odt.Trainer(path, loss="mean_squared_error").export(out, float_weights=True)
    integers = np.random.default_rng(0).integers(-60, 60, (8, 6), np.int8)
    computed = litert(out, [integers * np.float32(0.05)])
    for a, b in zip(computed, litert(path, [integers]), strict=True):
        np.testing.assert_allclose(a, b, atol=0.3)


@pytest.mark.parametrize(("op", "zero"), [("RSQRT", -128), ("LOG", 20)])
def test_zeros_have_a_gradient_where_the_result_has_no_limit(
    op: str, zero: int, tmp_path: Path
) -> None:
    """Half of the inputs are 0 after RELU: LiteRT gives them the smallest or largest result too."""
    net, path, out = QuantizedBuilder(seed=1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    given = net.activation((1, 6), 0.05)
    w = net.weights((8, 6), [0.01])
    y = net.operator(
        "FULLY_CONNECTED",
        (given, w, -1),
        (1, 8),
        0.05,
        -128,
        fused_activation_function=NAMES["RELU"],
    )
    y = net.operator(op, (y,), (1, 8), 0.02, zero)
    y = net.operator("FULLY_CONNECTED", (y, net.weights((2, 8), [0.01]), -1), (1, 2), 0.2)
    net.write(path, y)
    x = np.random.default_rng(0).integers(-128, 127, (32, 6)).astype(np.int8)
    t = np.random.default_rng(1).normal(size=(32, 2)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", batch_size=16) as trainer:
        trainer.fit(x, t, epochs=2, seed=1)
        trainer.export(out)
        check_litert(trainer, out, x, steps=0.2 * 256)


def test_an_lstm_on_real_numbers_needs_no_cell(tmp_path: Path) -> None:
    """Trailing inputs of an operator may be left out, such as the state of an LSTM."""
    net = QuantizedBuilder()
    x = net.add_operator("DEQUANTIZE", (net.activation((1, 3, 4), 0.05),), (1, 3, 4))
    w, r = ([net.add_constant(net.rng.normal(size=(5, n)))] * 4 for n in (4, 5))
    inputs = (x, *w, *r, -1, -1, -1, *[net.add_constant(np.zeros(5, np.float32))] * 4)
    y = net.add_operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (1, 3, 5), fused_activation_function=4
    )
    net.write(tmp_path / "m.tflite", y)
    graph = real_graph(read_model(tmp_path / "m.tflite")).graph
    assert [node.op for node in graph.nodes][-1] == "UNIDIRECTIONAL_SEQUENCE_LSTM"


def test_conversions_at_the_end_do_not_count_as_last_operators(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    small_net(path, floats=True)  # …, FULLY_CONNECTED, SOFTMAX, DEQUANTIZE
    sizes = [
        {
            i: a.size
            for i, a in odt.Trainer(path, trainable=odt.last(n)).session.build().weights().items()
        }
        for n in range(3)
    ]
    assert sizes[:2] == [{}, {}]
    assert sorted(sizes[2].values()) == [3, 3 * 36]
    with pytest.raises(OptionError, match="must be at most 6, the model's operators"):
        odt.Trainer(path, trainable=odt.last(7))
    assert number_of_last(read_model(path).graph, (4, 5)) == 2
    assert number_of_last(read_model(path).graph, tuple(range(7))) == -1


def options(path: Path, **more: Any) -> odt.Trainer:
    loss = "sparse_categorical_crossentropy"
    return odt.Trainer(path, loss=loss, optimizer="adam", learning_rate=1e-3, batch_size=8, **more)


def test_a_resumed_training_gives_the_same_file(tmp_path: Path) -> None:
    """The checkpoint holds the float weights, not their rounded copies."""
    path = tmp_path / "m.tflite"
    data = samples(small_net(path), 24)
    whole = options(path)
    whole.fit(*data, epochs=4, seed=1)
    whole.export(tmp_path / "whole.tflite")
    first = options(path)
    first.fit(*data, epochs=2, seed=1)
    first.save_checkpoint(tmp_path / "c.odt")
    second = options(path, checkpoint=tmp_path / "c.odt")
    second.fit(*data, epochs=4, seed=1)
    second.export(tmp_path / "second.tflite")
    assert (tmp_path / "second.tflite").read_bytes() == (tmp_path / "whole.tflite").read_bytes()


def test_cached_frozen_layers_give_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    data = samples(small_net(path), 24)
    files = []
    for cache in (None, "ram"):
        trainer = options(path, trainable=odt.last(2), cache_frozen=cache, workers=1)
        trainer.fit(*data, epochs=3, seed=1)
        trainer.export(tmp_path / "out.tflite")
        files.append((tmp_path / "out.tflite").read_bytes())
    assert files[0] == files[1] != path.read_bytes()


def test_the_memory_report_counts_the_rounded_copies(tmp_path: Path) -> None:
    small_net(tmp_path / "m.tflite")
    report = options(tmp_path / "m.tflite").session.build().memory()
    weights, biases = 4 * 3 * 3 * 2 + 3 * 36, 4 + 3
    assert report.parameters == 4 * (2 * weights + biases)


def test_low_rank_adapters_are_merged_into_the_integers(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    x, labels = samples(small_net(path), 24)
    trainer = odt.Trainer(odt.lora(path, rank=2), learning_rate=1e-2, optimizer="adam")
    trainer.fit(x, np.eye(3, dtype=np.float32)[labels], epochs=20, seed=1)
    trainer.export(out)
    assert len(out.read_bytes()) == len(path.read_bytes())
    check_litert(trainer, out, x, 24)


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1.0, ""), (100.0, r"9\d% of the values are outside the range"), (0.01, "values use 1.0% of")],
)
def test_a_note_warns_of_data_of_another_range(factor: float, words: str, tmp_path: Path) -> None:
    x, labels = samples(small_net(tmp_path / "m.tflite"), 24)
    real = (x.astype(np.float32) - 3) * np.float32(0.02 * factor)
    np.save(tmp_path / "x.npy", real)
    np.save(tmp_path / "y.npy", labels)
    trainer = options(tmp_path / "m.tflite")
    notes = trainer.session.open(tmp_path / "x.npy", tmp_path / "y.npy").notes
    assert len(notes) == (2 if words else 1)
    assert re.search(words, notes[-1])
