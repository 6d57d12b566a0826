"""Streaming models: the unrolled graph computes what LiteRT computes run by run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.judges import difference, litert
from support.judges import odt as odt_outputs
from support.paths import MODELS
from support.streaming_models import (
    StreamingBuilder,
    frames_net,
    litert_sequences,
    predictions,
    sequences,
    streaming_net,
    svdf_net,
)

import odt
from odt.core.formats.reader import read_model
from odt.core.lowering.streaming.unroll import unroll
from odt.core.model.model import Model
from odt.core.model.variables import keeps_state
from odt.core.planning.trainable import trainable_by_operator
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.sequences import need_sequences, with_sequences
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array

WAKE_WORD = MODELS / "okay-nabu-int8.tflite"
LENGTH = 7


def random_inputs(model: Model, samples: int, length: int) -> Array:
    spec = model.graph.tensors[model.graph.inputs[0]].spec
    rng = np.random.default_rng(1)
    shape = (samples, length, *spec.shape[1:])
    if spec.dtype == np.float32:
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(-128, 127, shape, endpoint=True).astype(np.int8)


@pytest.mark.parametrize("floats", [True, False], ids=["float", "int8"])
def test_every_time_step_equals_a_run_of_litert(floats: bool, tmp_path: Path) -> None:
    model = streaming_net(tmp_path / "m.tflite", floats=floats)
    inputs = random_inputs(model, 9, LENGTH)
    theirs = litert_sequences(Path(model.path), inputs).astype(np.float64)
    if not floats:
        theirs = (theirs + 128) / 256
    ours = predictions(sequences(model, LENGTH, all_steps=True), inputs)
    assert np.ptp(theirs) > 0.5, "the outputs differ"
    assert ours.shape == (9, LENGTH, 2)
    assert np.abs(ours - theirs).max() <= (1e-6 if floats else 0)
    assert np.array_equal(predictions(sequences(model, LENGTH), inputs), ours[:, -1])


@pytest.mark.parametrize("floats", [True, False], ids=["float", "int8"])
def test_frames_computed_at_once_equal_those_of_each_run(floats: bool, tmp_path: Path) -> None:
    model = frames_net(tmp_path / "m.tflite", floats=floats)
    inputs = random_inputs(model, 5, LENGTH)
    theirs = litert_sequences(Path(model.path), inputs).astype(np.float64)
    theirs = theirs if floats else (theirs + 3) * 0.05
    ours = predictions(sequences(model, LENGTH, all_steps=True), inputs)
    assert np.ptp(theirs) > 1
    assert np.abs(ours - theirs).max() <= 1e-5
    assert np.allclose(predictions(sequences(model, LENGTH), inputs), ours[:, -1], atol=1e-6)
    operators = [n.op for n in unroll(sequences(model, LENGTH, all_steps=True)).graph.nodes]
    assert operators.count("CONV_2D") == 2 + LENGTH, "the padded one needs its time steps"
    assert operators.count("MAX_POOL_2D") == operators.count("ADD") == 1


def test_frames_of_a_state_whose_shape_the_file_leaves_open_are_the_same(tmp_path: Path) -> None:
    model = frames_net(tmp_path / "m.tflite", floats=True)
    reads = {node.outputs[0] for node in model.graph.nodes if node.op == "READ_VARIABLE"}
    tensors = [
        replace(t, spec=replace(t.spec, shape=(*t.spec.shape[:3], 1)), signature=(1, -1, 1, -1))
        if i in reads
        else t
        for i, t in enumerate(model.graph.tensors)
    ]
    is_open = replace(model, graph=replace(model.graph, tensors=tuple(tensors)))
    inputs = random_inputs(model, 2, LENGTH)
    ours = predictions(sequences(is_open, LENGTH), inputs)
    assert np.array_equal(ours, predictions(sequences(model, LENGTH), inputs))


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        ("CONV_2D", "stride"),
        ("MAX_POOL_2D", "stride"),
        ("STRIDED_SLICE", "stride"),
        ("CONV_2D", "inputs"),
    ],
)
def test_a_damaged_node_of_frames_is_named(op: str, fault: str, tmp_path: Path) -> None:
    model = frames_net(tmp_path / "m.tflite", floats=True)
    tensors, nodes = [*model.graph.tensors], [*model.graph.nodes]
    for k, node in enumerate(nodes):
        if node.op != op:
            continue
        if fault == "inputs":
            nodes[k] = replace(node, inputs=node.inputs[:1])
        elif op == "STRIDED_SLICE":
            steps = node.inputs[3]
            tensors[steps] = replace(tensors[steps], data=np.zeros(4, np.int32))
        else:
            nodes[k] = replace(node, options={**node.options, "stride_h": 0})
    graph = replace(model.graph, tensors=tuple(tensors), nodes=tuple(nodes))
    with pytest.raises(UnsupportedError, match=rf"node \d+ \({op}\)"):
        lower_model(sequences(replace(model, graph=graph), 2)).graphs.check()


def test_a_wake_word_takes_one_node_for_all_time_steps() -> None:
    model = read_model(WAKE_WORD)
    short, long = (len(unroll(sequences(model, n)).graph.nodes) for n in (2, 80))
    assert short == long < 50


def test_a_wake_word_equals_litert_to_the_bit() -> None:
    inputs = np.load(MODELS / "okay-nabu-speech.npz")["x"]
    model = sequences(read_model(WAKE_WORD), inputs.shape[1], all_steps=True)
    theirs = litert_sequences(WAKE_WORD, inputs)
    assert theirs.max() > 200, "some samples hold the word"
    assert np.array_equal(predictions(model, inputs) * 256, theirs)


def test_initial_values_and_later_ones_pass_through_the_state(tmp_path: Path) -> None:
    """The graph has no variable, shares weights, and trains no initial value."""
    model = streaming_net(tmp_path / "m.tflite", floats=True)
    assert [*model.variables] == [("", "frames"), ("", "total")]
    total = model.variables["", "total"]
    assert total.value is not None
    assert total.value.tolist() == [[0, 0.25, 0.5, 0.75, 1]]
    lowered = lower_model(sequences(model, LENGTH)).graphs.at(3)
    operators = [node.op for node in lowered.nodes]
    assert operators.count("ADD") == LENGTH
    assert operators.count("FULLY_CONNECTED") == LENGTH + 1, "the last output alone is computed"
    weights = {i for _, i in trainable_by_operator(lowered)}
    constants = {i for i in weights if model.graph.tensors[i].data is not None}
    assert weights == constants
    assert len(weights) == 5  # two layers, and the factor


def test_a_model_without_state_is_not_unrolled() -> None:
    model = read_model(MODELS / "tflm-hello-world-sine-float.tflite")
    assert unroll(model) is model
    need_sequences(model)
    with pytest.raises(OptionError, match="must be left out for a model that keeps no state"):
        with_sequences(model, 3)


def test_the_length_of_sequences_is_checked(tmp_path: Path) -> None:
    model = streaming_net(tmp_path / "m.tflite")
    with pytest.raises(OptionError, match=r"must be given for .*m\.tflite, which keeps state"):
        need_sequences(model)
    with pytest.raises(OptionError, match="must be a whole number of at least 1, but got 0"):
        with_sequences(model, 0)
    with pytest.raises(OptionError, match=r"`return_sequences=`: must come with"):
        with_sequences(model, None, return_sequences=True)


def broken(path: Path, kind: str) -> Model:
    """A model whose variable breaks a rule."""
    b = StreamingBuilder()
    x = b.activation((1, 3), 0.5)
    if kind == "no initial value":
        b.variable("other", np.zeros((1, 3), "i1"))
        handle = b.handle("s")
    else:
        handle = b.variable("s", np.zeros((1, 3), "i2" if kind == "type" else "i1"))
    old = b.operator("READ_VARIABLE", (handle,), (1, 3), 0.5)
    y = b.operator("ADD", (x, old), (1, 3), 0.25 if kind == "scale" else 0.5)
    b.effect("ASSIGN_VARIABLE", (x if kind == "handle" else handle, y))
    b.write(path, y)
    return read_model(path)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("no initial value", "must get a constant as initial value by a CALL_ONCE, but got none"),
        ("type", "must be read with the type and scale with which it was assigned, but got"),
        ("scale", "must be read with the type and scale with which it was assigned, but got"),
        ("handle", "its variable must be that of a VAR_HANDLE, but is unknown"),
    ],
)
def test_a_broken_variable_is_named_in_one_line(kind: str, text: str, tmp_path: Path) -> None:
    model = broken(tmp_path / "m.tflite", kind)
    with pytest.raises(UnsupportedError, match=text) as e:
        lower_model(sequences(model, 2))
    assert str(e.value).startswith(f"{model.path}: node ")


def test_an_initializer_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    b = StreamingBuilder()
    b.graph.operators[0].builtin_options.init_subgraph_index = 2
    x = b.activation((1, 3), 0.5)
    b.write(tmp_path / "m.tflite", b.operator("ADD", (x, x), (1, 3), 0.5))
    with pytest.raises(ModelError, match="its subgraph must be from 1 to 1, but got 2"):
        read_model(tmp_path / "m.tflite")


def trained(path: Path, out: Path, inputs: Array, targets: Array) -> odt.Trainer:
    model = odt.load_model(path, sequence_length=inputs.shape[1])
    trainer = odt.Trainer(model, optimizer="adam", learning_rate=0.002, batch_size=4)
    before = trainer.evaluate(inputs, targets)["loss"]
    trainer.fit(inputs, targets, epochs=4, seed=1)
    assert trainer.evaluate(inputs, targets)["loss"] < before
    trainer.export(out)
    return trainer


@pytest.mark.parametrize("floats", [True, False], ids=["float", "int8"])
def test_an_export_is_the_streaming_file_with_other_weights(floats: bool, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model = streaming_net(path, floats=floats)
    inputs = random_inputs(model, 12, LENGTH)
    targets = np.eye(2, dtype=np.float32)[np.arange(12) % 2]
    trainer = trained(path, out, inputs, targets)
    theirs = litert_sequences(out, inputs)[:, -1].astype(np.float64)
    theirs = theirs if floats else (theirs + 128) / 256
    assert np.abs(trainer.predict(inputs) - theirs).max() <= (1e-6 if floats else 1 / 256)
    check_only_weights_differ(model, read_model(out))
    trainer.export(out, float_weights=True)
    reals = (inputs if floats else (inputs.astype(np.float32) - 3) * 0.02).astype(np.float32)
    theirs = litert_sequences(out, reals)[:, -1]
    assert np.abs(trainer.predict(inputs) - theirs).max() <= (1e-6 if floats else 0.03)


def check_only_weights_differ(before: Model, after: Model) -> None:
    assert len(after.data) == len(before.data)
    for key, variable in before.variables.items():
        value = after.variables[key].value
        assert variable.value is not None
        assert value is not None
        assert np.array_equal(variable.value, value)
    weights = {i for i in before.quantization if before.graph.tensors[i].data is not None}
    for i, quantization in before.quantization.items():
        same = np.array_equal(quantization.scale, after.quantization[i].scale)
        assert same or i in weights


def test_a_trained_wake_word_runs_in_litert(tmp_path: Path) -> None:
    speech, out = np.load(MODELS / "okay-nabu-speech.npz"), tmp_path / "out.tflite"
    trainer = trained(WAKE_WORD, out, speech["x"], speech["y"])
    theirs = litert_sequences(out, speech["x"])[:, -1] / 256
    assert np.abs(trainer.predict(speech["x"]) - theirs).max() <= 2 / 256
    check_only_weights_differ(read_model(WAKE_WORD), read_model(out))


@pytest.mark.parametrize(("floats", "rank"), [(True, 1), (True, 2), (False, 1)])
def test_layers_with_memory_equal_litert(floats: bool, rank: int, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model = svdf_net(path, floats=floats, rank=rank)
    inputs = random_inputs(model, 12, LENGTH)
    targets = np.eye(2, dtype=np.float32)[np.arange(12) % 2]

    def theirs(file: Path) -> Array:
        values = litert_sequences(file, inputs).astype(np.float64)
        return values if floats else (values + 128) / 256

    ours = predictions(sequences(model, LENGTH, all_steps=True), inputs)
    assert np.ptp(theirs(path)) > 0.2
    assert np.abs(ours - theirs(path)).max() <= (1e-6 if floats else 1 / 256)
    trainer = trained(path, out, inputs, targets)
    steps = 1e-6 if floats else 2 / 256
    assert np.abs(trainer.predict(inputs) - theirs(out)[:, -1]).max() <= steps
    changed = [
        not np.array_equal(a.data, b.data)
        for a, b in zip(model.graph.tensors, read_model(out).graph.tensors, strict=True)
        if a.data is not None and b.data is not None
    ]
    assert sum(changed) == 8, "the filters and biases of three layers"


def test_a_variable_that_no_output_needs_is_no_state(tmp_path: Path) -> None:
    """Keras' dropout counts its seeds in each run; the other variable is a weight."""
    b = StreamingBuilder()
    x = b.add_input((1, 3))
    seed = b.variable("seed", np.array([[7.0]], "f4"))
    weight = b.variable("weight", np.array([[1, -2, 3], [0, 1, 0.5]], "f4"))
    w = b.add_operator("READ_VARIABLE", (weight,), (2, 3))
    y = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 2))
    old = b.add_operator("READ_VARIABLE", (seed,), (1, 1))
    new = b.add_operator("ADD", (old, b.add_constant(np.array([[1.0]], "f4"))), (1, 1))
    b.effect("ASSIGN_VARIABLE", (seed, new))
    b.write(tmp_path / "m.tflite", y)
    model = read_model(tmp_path / "m.tflite")
    assert not keeps_state(model.graph)
    lowered = lower_model(model)
    assert [node.op for node in lowered.graph.nodes] == ["FULLY_CONNECTED"]
    inputs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    assert difference(odt_outputs(model.path, [inputs])[0], litert(model.path, [inputs])[0]) < 1e-6
    trainer = odt.Trainer(model.path, loss="mean-squared-error", batch_size=4, learning_rate=0.1)
    first = trainer.train_on_batch(inputs, np.ones((4, 2), np.float32))["loss"]
    for _ in range(9):
        last = trainer.train_on_batch(inputs, np.ones((4, 2), np.float32))["loss"]
    assert last < first
    trainer.export(tmp_path / "out.tflite")
    ours = odt_outputs(tmp_path / "out.tflite", [inputs])[0]
    assert difference(ours, litert(tmp_path / "out.tflite", [inputs])[0]) < 1e-6
