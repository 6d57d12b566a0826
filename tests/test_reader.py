"""Any bytes give a Model or one ModelError; models of others are read as they are."""

from pathlib import Path

import numpy as np
import pytest

from odt.core.reader import Model, read_model

MODELS = Path(__file__).parent / "models"


def model(name: str) -> Model:
    return read_model(str(MODELS / name))


def test_a_tflite_model_becomes_a_graph() -> None:
    # Shapes, operators and constants as the origin's README and netron show them.
    read = model("tflm-hello-world-sine-float.tflite")
    assert read.format == "tflite"
    assert [n.op for n in read.graph.nodes] == ["FULLY_CONNECTED"] * 3
    assert [read.graph.tensors[i].spec.shape for i in read.graph.inputs] == [(1, 1)]
    weights = [read.graph.tensors[n.inputs[1]] for n in read.graph.nodes]
    assert [w.spec.shape for w in weights] == [(16, 1), (16, 16), (1, 16)]
    assert all(w.data is not None and w.data.dtype == np.float32 for w in weights)


def test_constants_are_read_only_views_of_the_file() -> None:
    read = model("mlperf-tiny-resnet8-cifar10.tflite")
    for tensor in read.graph.tensors:
        if tensor.data is not None:
            assert not tensor.data.flags.writeable
            assert not tensor.data.flags.owndata
    weight = next(t.data for t in read.graph.tensors if t.data is not None)
    with pytest.raises(ValueError, match="read-only"):
        weight[...] = 0


def test_options_are_decoded_with_their_defaults() -> None:
    read = model("mlperf-tiny-resnet8-cifar10.tflite")
    options = next(n.options for n in read.graph.nodes if n.op == "CONV_2D")
    assert options["padding"] == 0
    assert options["stride_w"] == options["stride_h"] == 1
    assert options["dilation_w_factor"] == 1
    assert options["fused_activation_function"] == 1
