"""Custom operators: LiteRT as judge; files that hold them train and keep their options' bytes."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_db.support.flex_maps import flex_map
from support.judges import difference, litert, odt, random_inputs
from support.networks import ArrayData, InOrder

from odt.core.export.exporter import export_model
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.self_test import DIFFERENCES, self_test
from odt.core.training.trainer import Trainer
from odt.errors import DataError

SAME, VALID = 1, 2  # TfLitePadding


def custom(
    b: ModelBuilder, code: str, inputs: tuple[int, ...], *shapes: tuple[int, ...], **fields: int
) -> int:
    """Adds a custom operator whose options are a C struct of these fields, in order."""
    y = b.add_operator(f"CUSTOM:{code}", inputs, *shapes)
    packed = struct.pack(f"<{len(fields)}i", *fields.values())
    b.graph.operators[-1].custom_options = np.frombuffer(packed, np.uint8)
    return y


def flexible(
    b: ModelBuilder, code: str, inputs: tuple[int, ...], shape: tuple[int, ...], **fields: Any
) -> int:
    """Adds a custom operator whose options are a FlexBuffers map of these fields."""
    y = b.add_operator(f"CUSTOM:{code}", inputs, shape)
    data = flex_map(**fields)["custom_options"]
    b.graph.operators[-1].custom_options = np.frombuffer(data, np.uint8)
    return y


def trained(path: Path, out: Path, learning_rate: float = 0.01) -> list[np.ndarray]:
    """Trains ten steps and exports; returns the inputs."""
    inputs = random_inputs(path, 4)
    targets = [a + np.float32(0.5) for a in odt(path, inputs)]
    model = read_model(str(path))
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, learning_rate=learning_rate)
    with Trainer(model.graph, info) as trainer:
        losses = [
            e.training.loss
            for e in trainer.train(ArrayData(inputs, targets), InOrder(4), epochs=10)
        ]
        export_model(model, trainer.weights(), out)
    assert losses[-1] < losses[0]
    old, new = (read_model(str(p)).graph.nodes for p in (path, out))
    assert [n.options for n in old] == [n.options for n in new]
    return inputs


@pytest.mark.parametrize(
    ("padding", "size", "kernel", "stride"),
    [
        (SAME, (4, 3), (2, 2), (2, 2)),
        (SAME, (3, 3), (4, 3), (2, 2)),
        (SAME, (3, 4), (3, 3), (1, 1)),
        (VALID, (3, 2), (3, 2), (1, 2)),
        (VALID, (3, 2), (3, 4), (2, 3)),
    ],
)
def test_transposed_convolutions_with_bias_agree_with_litert(
    padding: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    tmp_path: Path,
) -> None:
    b, path, out = ModelBuilder("tflite", 1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    w, bias = b.add_weight((3, *kernel, 2), 4), b.add_constant(np.arange(3, dtype=np.float32))
    shape = [
        s * (n - 1) + (min(k, (n - 1) % s + 1) if padding == SAME else k)
        for n, k, s in zip(size, kernel, stride, strict=True)
    ]
    y = custom(
        b,
        "Convolution2DTransposeBias",
        (b.add_input((1, *size, 2)), w, bias),
        (1, *shape, 3),
        padding=padding,
        stride_w=stride[1],
        stride_h=stride[0],
    )
    b.write(path, y)
    inputs = trained(path, out)
    for file in (path, out):
        assert difference(odt(file, inputs)[0], litert(file, inputs)[0]) < 1e-6


@pytest.mark.parametrize("window", [(2, 2), (1, 2)])
def test_maximum_pooling_and_unpooling_agree_with_litert(
    window: tuple[int, int], tmp_path: Path
) -> None:
    """The positions themselves differ: LiteRT's are integers in the memory of floats."""
    b, path, out = ModelBuilder("tflite", 1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    height, width = window
    fields = {"padding": VALID, "stride_w": width, "stride_h": height}
    fields |= {"filter_width": width, "filter_height": height, "activation": 0}
    w, bias = b.add_weight((3, 1, 1, 2), 4), b.add_constant(np.arange(3, dtype=np.float32))
    x = b.add_operator(
        "CONV_2D", (b.add_input((1, 4, 6, 2)), w, bias), (1, 4, 6, 3), stride_h=1, stride_w=1
    )
    shape = (1, 4 // height, 6 // width, 3)
    y = custom(b, "MaxPoolingWithArgmax2D", (x,), shape, shape, **fields)
    squares = b.add_operator("MUL", (y, y), shape)
    b.write(path, custom(b, "MaxUnpooling2D", (squares, y + 1), (1, 4, 6, 3), **fields))
    inputs = trained(path, out)
    for file in (path, out):
        assert difference(odt(file, inputs)[0], litert(file, inputs)[0]) < 1e-6


def test_a_crop_around_landmarks_trains(tmp_path: Path) -> None:
    """LiteRT has none of the three operators: differences judge the gradients."""
    b, path, out = ModelBuilder("tflite", 1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    x = b.add_input((1, 6, 6, 2))
    w, bias = b.add_weight((3, 3, 3, 2), 18), b.add_constant(np.zeros(3, np.float32))
    image = b.add_operator("CONV_2D", (x, w, bias), (1, 6, 6, 3), stride_h=1, stride_w=1)
    corners = b.add_constant(np.array([1, 1.5, 0, 4, 1, 0, 2, 4.5, 0], np.float32))
    points = b.add_operator("FULLY_CONNECTED", (x, b.add_weight((9, 72), 7200), corners), (1, 9))
    points = b.add_operator(
        "RESHAPE", (points, b.add_constant([1, 3, 3])), (1, 3, 3), new_shape=[1, 3, 3]
    )
    fields = {"left_rotation_idx": 0, "right_rotation_idx": 1, "subset_idxs": [0, 1, 2]}
    size = {"output_height": 4, "output_width": 4}
    more = {"scale_x": 1.5, "scale_y": 1.5, "target_rotation_radians": 0.0}
    m = flexible(b, "Landmarks2TransformMatrix", (points,), (1, 4, 4), **fields, **size, **more)
    crop = flexible(b, "TransformTensorBilinear", (image, m), (1, 4, 4, 3), **size)
    moved = b.add_operator("CUSTOM:TransformLandmarks", (points, m), (1, 3, 3))
    b.write(path, crop, moved)
    inputs = trained(path, out, learning_rate=1e-3)
    graphs = lower_model(read_model(str(path))).graphs
    info = TrainingInfo(loss="mean_squared_error", batch_size=4)
    data = ArrayData(inputs, [a + np.float32(0.5) for a in odt(path, inputs)])
    found = {f.what: f.passed for f in self_test(graphs, info, data, weights=40)}
    assert found[DIFFERENCES]


@pytest.mark.parametrize("squared", [True, False])
def test_a_front_end_of_sound_equals_litert(squared: bool, tmp_path: Path) -> None:
    """The sample rate is data, as converters leave it; 16,000 and 44,100 have other filters."""
    b = ModelBuilder("tflite")
    sound, rate = b.add_input((700, 2)), b.add_input((1,), "int32")
    fields = {"window_size": 300, "stride": 100, "magnitude_squared": squared}
    power = flexible(b, "AudioSpectrogram", (sound,), (2, 5, 257), **fields)
    fields = {"filterbank_channel_count": 20, "dct_coefficient_count": 7}
    limits = {"lower_frequency_limit": 20.5, "upper_frequency_limit": 4000.0}
    y = flexible(b, "Mfcc", (power, rate), (2, 5, 7), **fields, **limits)
    y = b.add_dense(b.add_operator("RESHAPE", (y,), (1, 70), new_shape=[1, 70]), 3)
    b.write(tmp_path / "m.tflite", y)
    rng = np.random.default_rng(0)
    rates = np.array([[16_000], [44_100], [16_000], [8_000]], np.int32)
    inputs = [rng.normal(size=(4, 700, 2)).astype(np.float32), rates]
    ours = odt(tmp_path / "m.tflite", inputs, 4)
    assert difference(ours[0], litert(tmp_path / "m.tflite", inputs)[0]) < 1e-5
    inputs[1] = rates - 8000
    with pytest.raises(DataError, match=r"twice the upper frequency limit, 4000, .* but got 0"):
        odt(tmp_path / "m.tflite", inputs, 4)
