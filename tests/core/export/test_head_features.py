"""Which features `odt replace-head` chooses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import litert, random_inputs
from support.new_heads import classifier, expected, run
from support.streaming_models import streaming_net

from odt.core.export.replace_head import Head, replace_head
from odt.core.formats.reader import read_model
from odt.errors import OptionError

POOLINGS = ("MEAN", "MEAN of PyTorch's layout", "AVERAGE_POOL_2D and RESHAPE")


def pooled(model: ModelBuilder, y: int, how: str) -> int:
    """The classifier's features, pooled over height and width, (1, 8)."""
    if how == "MEAN":
        return model.add_operator("MEAN", (y, model.add_constant([1, 2])), (1, 8))
    if how.startswith("MEAN"):
        y = model.add_operator("TRANSPOSE", (y, model.add_constant([0, 3, 1, 2])), (1, 8, 6, 5))
        axes = model.add_constant([-1, 2])
        y = model.add_operator("MEAN", (y, axes), (1, 8, 1, 1), keep_dims=True)
    else:
        options: dict[str, Any] = {
            "stride_w": 1,
            "stride_h": 1,
            "filter_width": 5,
            "filter_height": 6,
            "padding": 1,
        }
        y = model.add_operator("AVERAGE_POOL_2D", (y,), (1, 1, 1, 8), **options)
    return model.add_operator("RESHAPE", (y, model.add_constant([1, 8])), (1, 8))


@pytest.mark.parametrize(
    ("how", "operator"),
    list(zip(POOLINGS, (2, 3, 2), strict=True)),
    ids=("keras", "pytorch", "pool"),
)
def test_pooled_features_come_before_those_of_later_layers(
    how: str, operator: int, tmp_path: Path
) -> None:
    model, _, y = classifier()
    features = pooled(model, y, how)
    model.write(tmp_path / "features.tflite", features)
    y = model.add_dense(features, 5, fused_activation_function=1)
    last = len(model.graph.operators) - 1
    model.write(
        tmp_path / "m.tflite", model.add_operator("SOFTMAX", (model.add_dense(y, 3),), (1, 3))
    )
    result = run(tmp_path / "m.tflite", tmp_path / "new.tflite")
    kind = how.partition(" ")[0]
    assert (
        f"The new layer reads 8 features of operator {operator} {kind}; "
        f"other choices: --after {last} (FULLY_CONNECTED, 5).\n" in result.stdout
    )
    x = random_inputs(tmp_path / "new.tflite", 1)
    wanted = expected(
        litert(tmp_path / "features.tflite", x)[0], read_model(str(tmp_path / "new.tflite"))
    )
    np.testing.assert_allclose(litert(tmp_path / "new.tflite", x)[0], wanted, atol=1e-5)


def test_other_choices_with_after(tmp_path: Path) -> None:
    model, _, y = classifier()
    y = model.add_dense(pooled(model, y, "MEAN"), 5)
    model.write(tmp_path / "m.tflite", model.add_dense(y, 3))
    result = run(tmp_path / "m.tflite", tmp_path / "new.tflite", "--after", 3)
    assert (
        "reads 5 features of operator 3 FULLY_CONNECTED; other choices: --after 2 (MEAN, 8).\n"
        in result.stdout
    )


def test_an_operator_without_outputs_gives_no_features(tmp_path: Path) -> None:
    model = streaming_net(tmp_path / "m.tflite", floats=True)
    assignment = next(n.origin for n in model.graph.nodes if n.op == "ASSIGN_VARIABLE")
    with pytest.raises(OptionError, match="must be an operator that computes activations"):
        replace_head(model, Head(2), after=assignment)
    with pytest.raises(OptionError, match="`seed=`: must be a whole number of at least 0"):
        replace_head(model, Head(2), seed=-1)


def test_a_pooling_that_scales_a_feature_map_gives_no_features(tmp_path: Path) -> None:
    """Squeeze-and-excitation: the classes depend on the feature map too."""
    model, _, y = classifier()
    scale = model.add_dense(pooled(model, y, "MEAN"), 8)
    scale = model.add_operator("RESHAPE", (scale, model.add_constant([1, 1, 1, 8])), (1, 1, 1, 8))
    y = model.add_operator("MUL", (y, scale), (1, 6, 5, 8))
    y = model.add_operator("RESHAPE", (y, model.add_constant([1, 240])), (1, 240))
    model.write(tmp_path / "m.tflite", model.add_dense(y, 3))
    result = run(tmp_path / "m.tflite", tmp_path / "new.tflite")
    assert "The new layer reads 240 features of operator 6 RESHAPE.\n" in result.stdout


def test_pooled_logits_are_no_features(tmp_path: Path) -> None:
    """SqueezeNet's last layer is a convolution; its logits are averaged."""
    model, _, y = classifier()
    y = model.add_operator("SOFTMAX", (pooled(model, y, "MEAN"),), (1, 8))
    model.write(tmp_path / "m.tflite", y)
    result = run(tmp_path / "m.tflite", tmp_path / "new.tflite")
    assert "The new layer reads 3 features of the model's input.\n" in result.stdout
