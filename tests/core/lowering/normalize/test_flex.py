"""TensorFlow's operators in a file compute what operators of TFLite compute."""

from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers
from model_builder import ModelBuilder
from support.judges import litert, odt
from support.networks import ArrayData, InOrder
from support.unrolled import write_unrolled

from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.flex import read_attributes
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array


def field(number: int, value: bytes) -> bytes:
    """A field of a protocol buffer, of less than 128 bytes."""
    return bytes((number << 3 | 2, len(value))) + value


def attribute(value: bytes | tuple[int, ...]) -> bytes:
    """An AttrValue: text, or a list of numbers."""
    return field(2, value) if isinstance(value, bytes) else field(1, field(3, bytes(value)))


def flex(
    model: ModelBuilder,
    name: str,
    inputs: tuple[int, ...],
    shape: tuple[int, ...],
    **attributes: bytes | tuple[int, ...],
) -> int:
    y = model.add_operator(f"CUSTOM:Flex{name}", inputs, shape)
    entries = (field(1, k.encode()) + field(2, attribute(v)) for k, v in attributes.items())
    definition = field(2, name.encode()) + b"".join(field(5, entry) for entry in entries)
    fbb = flexbuffers.Builder()
    with fbb.Vector():
        fbb.String(name)
        fbb.String(definition.decode("latin-1"))
    model.graph.operators[-1].custom_options = np.frombuffer(fbb.Finish(), np.uint8)
    return y


def network(path: Path, *, first: bool, padding: bytes) -> None:
    """Convolution by 2 × 1 steps, bias, RELU, pooling and a dense layer, channels first or last."""
    model = ModelBuilder("tflite", seed=2)
    rows = 3 if padding == b"SAME" else 2

    def shape(c: int, h: int, w: int) -> tuple[int, ...]:
        return (1, c, h, w) if first else (1, h, w, c)

    def along(h: int, w: int) -> tuple[int, ...]:
        return (1, 1, h, w) if first else (1, h, w, 1)

    columns = 7 if padding == b"SAME" else 5
    form = {"data_format": b"NCHW" if first else b"NHWC"}
    x = model.add_input(shape(2, 6, 7))
    w = model.add_weight((3, 3, 2, 4), 18, "w")
    y = flex(
        model,
        "Conv2D",
        (x, w),
        shape(4, rows, columns),
        strides=along(2, 1),
        padding=padding,
        **form,
    )
    bias = model.add_weight((4,), 4, "bias")
    y = flex(model, "BiasAdd", (y, bias), shape(4, rows, columns), **form)
    y = flex(model, "Relu", (y,), shape(4, rows, columns))
    y = flex(
        model,
        "MaxPool",
        (y,),
        shape(4, rows - 1, columns - 1),
        ksize=along(2, 2),
        strides=along(1, 1),
        padding=b"VALID",
        **form,
    )
    flat = model.add_constant(np.array((1, 4 * (rows - 1) * (columns - 1)), np.int32))
    y = model.add_operator("RESHAPE", (y, flat), (1, 4 * (rows - 1) * (columns - 1)))
    model.write(path, model.add_dense(y, 3))


def formula(x: Array, w: Array, bias: Array, *, first: bool, padding: bytes) -> Array:
    """What the network computes before its dense layer, in float64."""
    x = x.astype(np.float64) if first else x.transpose(0, 3, 1, 2).astype(np.float64)
    if padding == b"SAME":
        x = np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2]
    y = np.einsum("nchwij,ijco->nohw", seen, w.astype(np.float64)) + bias[:, None, None]
    y = np.maximum(y, 0)
    y = np.lib.stride_tricks.sliding_window_view(y, (2, 2), (2, 3)).max(axis=(-2, -1))
    y = y if first else y.transpose(0, 2, 3, 1)
    return np.asarray(y).reshape(len(x), -1)


def constant(path: Path, name: str) -> Array:
    (found,) = (t.data for t in read_model(path).graph.tensors if t.name == name)
    assert found is not None
    return found


@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
@pytest.mark.parametrize("first", [True, False])
def test_a_network_of_tensorflow_operators_trains(
    first: bool, padding: bytes, tmp_path: Path
) -> None:
    path, trained, judged = (tmp_path / f"{n}.tflite" for n in ("m", "trained", "judged"))
    network(path, first=first, padding=padding)
    rng = np.random.default_rng(3)
    shape = (8, 2, 6, 7) if first else (8, 6, 7, 2)
    x, t = rng.standard_normal(shape, np.float32), rng.standard_normal((8, 3), np.float32)
    info = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=1e-2)
    model = lower_model(read_model(path))
    with Trainer(model.graph, info) as trainer:
        found = [e.training.loss for e in trainer.train(ArrayData([x], [t]), InOrder(8), epochs=5)]
        assert len(trainer.parameters.trained) == 4
        export_model(model.file, trainer.weights(), trained)
    assert found[-1] < found[0]
    for file in (path, trained):
        dense = formula(
            x, constant(file, "w"), constant(file, "bias"), first=first, padding=padding
        )
        names = [t.name for t in read_model(file).graph.tensors]
        w, b = (constant(file, next(n for n in names if n.endswith(e))) for e in ("/w", "/b"))
        wanted = dense @ w.T + b
        np.testing.assert_allclose(odt(file, [x])[0], wanted, 1e-5, 1e-5)
        write_unrolled(read_model(file), judged)
        np.testing.assert_allclose(litert(judged, [x])[0], wanted, 1e-5, 1e-5)
    assert abs(constant(trained, "w") - constant(path, "w")).max() > 1e-4


def test_an_operator_that_tflite_lacks_stays(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = flex(
        model,
        "Conv2D",
        (model.add_input((1, 4, 4, 1)), model.add_weight((3, 3, 1, 2), 9)),
        (1, 4, 4, 2),
        padding=b"EXPLICIT",
    )
    model.write(tmp_path / "m.tflite", y)
    (refused,) = lower_model(read_model(tmp_path / "m.tflite")).graphs.unsupported
    assert refused.node.op == "CUSTOM:FlexConv2D"


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_damaged_attributes_are_read_up_to_the_damage(cut: int) -> None:
    strides = field(5, field(1, b"strides") + field(2, attribute((1, 1, 2, 2))))
    data = b"\6Conv2D\0@" + field(2, b"Conv2D") + strides + strides
    found = dict(read_attributes(data[:cut], "Conv2D"))
    assert set(found) <= {"strides"}
    assert dict(read_attributes(data, "Conv2D")) == {"strides": (1, 1, 2, 2)}
