"""Final operators without gradient are left out of training."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.final_operators import arg_max, conv, detection, segmentation

from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.left_out import LeftOut
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.training_outputs import describe_left_out

Make = Callable[[ModelBuilder], tuple[int, ...]]


def lowered(make: Make, folder: Path) -> LoweredModel:
    model = ModelBuilder("tflite", seed=1)
    model.write(folder / "m.tflite", *make(model))
    return lower_model(read_model(folder / "m.tflite"))


def outputs_of(model: LoweredModel) -> list[str]:
    return [model.graph.tensors[i].name for i in model.graph.outputs]


def left_out_of(model: LoweredModel) -> LeftOut:
    assert model.left_out is not None
    return model.left_out


def head(model: ModelBuilder, name: str, units: int = 4) -> int:
    y = model.add_dense(model.add_input((1, 4)), units)
    model.graph.tensors[y].name = name
    return y


def unknown(model: ModelBuilder, *inputs: int) -> int:
    return model.add_operator("CUSTOM:unknown", inputs, (1, 4))


@pytest.mark.parametrize("softmax", [False, True])
def test_a_model_ends_before_arg_max(softmax: bool, tmp_path: Path) -> None:
    segmentation(tmp_path / "m.tflite", softmax=softmax)
    model = lower_model(read_model(tmp_path / "m.tflite"))
    (y,) = model.graph.outputs
    assert left_out_of(model).arg_max == {y: -1}
    assert left_out_of(model).outputs == {model.file.graph.outputs[0]: (y,)}
    (loss,) = prepare(model).losses
    assert loss.name == "sparse_categorical_crossentropy"
    assert (loss.options["from_logits"], loss.tensor == y) == (True, not softmax)
    assert describe_left_out(model) == (
        f"{model.graph.name}: training leaves out node {3 + softmax} (ARG_MAX), which has no "
        f"gradient. Its outputs are {model.graph.label(y)} (1, 6, 6, 4)."
    )


def test_arg_max_without_an_axis_is_no_end(tmp_path: Path) -> None:
    """A damaged file: it is reported as any operator that lacks an input."""
    builder = ModelBuilder("tflite")
    x = builder.add_input((1, 4))
    y = builder.add_operator("ARG_MAX", (builder.add_operator("RELU", (x,), (1, 4)),), (1,))
    builder.write(tmp_path / "m.tflite", y)
    model = lower_model(read_model(tmp_path / "m.tflite"))
    assert model.left_out is None
    assert [node.node.op for node in model.graphs.unsupported] == ["ARG_MAX"]


def test_class_numbers_need_the_last_axis(tmp_path: Path) -> None:
    segmentation(tmp_path / "m.tflite", axis=1)
    model = lower_model(read_model(tmp_path / "m.tflite"))
    assert prepare(model).info.loss is None
    segmentation(tmp_path / "m.tflite", axis=3)
    model = lower_model(read_model(tmp_path / "m.tflite"))
    given = prepare(model, Request({"loss": "mean_squared_error"}))
    assert prepare(model).info.loss == "sparse_categorical_crossentropy"
    assert given.losses[0].name == "mean_squared_error"


def test_a_detector_ends_before_its_post_processing(tmp_path: Path) -> None:
    detection(tmp_path / "m.tflite")
    model = lower_model(read_model(tmp_path / "m.tflite"))
    assert outputs_of(model) == ["boxes", "probabilities"]
    assert [node.op for node in left_out_of(model).uncomputed] == [
        "CUSTOM:TFLite_Detection_PostProcess"
    ]
    assert not model.graphs.unsupported
    whole = lower_model(read_model(tmp_path / "m.tflite"), outputs="file")
    assert len(whole.graphs.unsupported) == 1


def test_integers_beside_an_output_that_trains_stay(tmp_path: Path) -> None:
    def make(model: ModelBuilder) -> tuple[int, ...]:
        y = head(model, "logits")
        return y, arg_max(model, y, 1)

    assert lowered(make, tmp_path).left_out is None


def test_unknown_operators_beside_an_output_that_trains_are_dropped(tmp_path: Path) -> None:
    def make(model: ModelBuilder) -> tuple[int, ...]:
        y = head(model, "logits")
        p = model.add_operator("SOFTMAX", (y,), (1, 4), beta=1.0)
        model.graph.tensors[p].name = "probabilities"
        return unknown(model, y), p

    model = lowered(make, tmp_path)
    assert outputs_of(model) == ["probabilities"]
    assert left_out_of(model).outputs == {model.file.graph.outputs[0]: ()}


def test_what_follows_an_unknown_operator_is_left_out_too(tmp_path: Path) -> None:
    """As in models with non-maximum suppression: boxes are selected by positions."""

    def make(model: ModelBuilder) -> tuple[int, ...]:
        boxes, p = head(model, "boxes"), head(model, "probabilities")
        axis = model.add_constant(np.array([1], np.int32))
        best = model.add_operator("REDUCE_MAX", (p, axis), (1,), keep_dims=False)
        found = model.add_operator("CUSTOM:unknown", (boxes, best), (1,), dtype="int32")
        number = arg_max(model, p, 1)
        chosen = model.add_operator("GATHER", (boxes, found), (1, 4), axis=0)
        return chosen, model.add_operator("GATHER", (number, found), (1,), dtype="int64", axis=0)

    model = lowered(make, tmp_path)
    assert outputs_of(model) == ["boxes", "probabilities"]
    assert len(left_out_of(model).nodes) == 5


def test_layers_are_never_left_out(tmp_path: Path) -> None:
    def make(model: ModelBuilder) -> tuple[int, ...]:
        return (model.add_dense(unknown(model, head(model, "features")), 2),)

    model = lowered(make, tmp_path)
    assert model.left_out is None
    assert len(model.graphs.unsupported) == 1


def test_nothing_to_train_leaves_a_model_whole(tmp_path: Path) -> None:
    assert lowered(lambda m: (unknown(m, m.add_input((1, 4))),), tmp_path).left_out is None
    assert lowered(lambda m: (arg_max(m, m.add_input((1, 4)), 1),), tmp_path).left_out is None


def test_layers_with_gradients_after_integers_keep_the_output(tmp_path: Path) -> None:
    def make(model: ModelBuilder) -> tuple[int, ...]:
        whole = model.add_operator("CAST", (head(model, "h"),), (1, 4), dtype="int32")
        return (model.add_dense(model.add_operator("CAST", (whole,), (1, 4)), 2),)

    assert lowered(make, tmp_path).left_out is None


def test_moved_outputs_have_the_shape_of_resized_inputs(tmp_path: Path) -> None:
    from odt.core.recipe.interface import with_input_shapes

    model = ModelBuilder("tflite", seed=1)
    y = conv(model, model.add_input((1, 4, 4, 2), name="x"), 3, "logits")
    model.write(tmp_path / "m.tflite", arg_max(model, y, 3))
    file = with_input_shapes(read_model(tmp_path / "m.tflite"), {"x": (1, 9, 9, 2)})
    recipe = prepare(lower_model(file))
    assert recipe.samples.output_specs[0].shape == (9, 9, 3)
    assert recipe.samples.target_specs[0].shape == (9, 9)


def test_an_unknown_operator_that_no_output_needs_is_left_out(tmp_path: Path) -> None:
    def make(model: ModelBuilder) -> tuple[int, ...]:
        y = head(model, "y")
        model.add_operator("TANH", (unknown(model, y),), (1, 4))
        return (y,)

    model = lowered(make, tmp_path)
    assert not model.graphs.unsupported
    assert outputs_of(model) == ["y"]
    assert describe_left_out(model) == (
        f"{model.graph.name}: training leaves out node 1 (CUSTOM:unknown), which no output needs, "
        f"and 1 that go with it. Its outputs are {model.graph.label(model.graph.outputs[0])} "
        "(1, 4)."
    )
