"""Several outputs: a loss and a weight for each."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.networks import ArrayData, InOrder, Net

import odt
from odt.cli.main import main
from odt.cli.options.types import LossText, OfOutput
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, Node
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.output_losses import output_losses
from odt.core.training.inference import Predictor
from odt.core.training.metrics import fitting_metrics
from odt.core.training.trainer import Trainer
from odt.errors import OptionError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array, TensorSpec

MSE, CCE = "mean_squared_error", "categorical_crossentropy"


def two_heads(dtype: type[np.floating] = np.float32) -> Graph:
    """One layer, and on it classes (SOFTMAX, tensor x7) and three numbers (x10)."""
    net = Net(dtype)
    shared = net.dense(net.input(1, 5), 6)
    classes = net.add("SOFTMAX", (net.dense(shared, 4),), (1, 4), beta=1.0)
    return net.graph(classes, net.dense(shared, 3))


def samples(count: int = 6) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(3)
    classes = np.eye(4)[rng.integers(0, 4, count)]
    return rng.normal(size=(count, 5)), classes, rng.normal(size=(count, 3))


def by_hand(graph: Graph, weights: Mapping[int, Array], w: float, v: float) -> float:
    """w · cross-entropy + v · mean squared error, from the definitions."""
    x, classes, numbers = samples()
    shared_w, shared_b, class_w, class_b, number_w, number_b = (weights[i] for i in sorted(weights))
    shared = x @ shared_w.T + shared_b
    logits = shared @ class_w.T + class_b
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    error = shared @ number_w.T + number_b - numbers
    return float(-w * (classes * logs).sum() / 6 + v * (error**2).mean())


def test_each_output_has_its_loss_and_its_weight() -> None:
    """Loss and gradient of every weight against the definition and its central differences."""
    graph = two_heads(np.float64)
    names = [graph.tensors[i].name for i in graph.outputs]
    info = TrainingInfo(
        "sgd",
        {},
        1.0,
        batch_size=6,
        output_losses=((names[1], MSE),),
        loss_weights=(("0", 0.5), (names[1], 3.0)),
    )
    x, *targets = samples()
    with Trainer(graph, info, micro_batch=2, workers=2) as trainer:
        before = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
        (epoch,) = trainer.train(ArrayData([x], targets), InOrder(6), epochs=1)
        after = trainer.parameters.tensors
    assert epoch.training.loss == pytest.approx(by_hand(graph, before, 0.5, 3.0), rel=1e-12)
    for i, a in before.items():
        found = a - after[i]
        for at in np.ndindex(a.shape):
            losses = []
            for step in (1e-6, -1e-6):
                moved = a.copy()
                moved[at] += step
                losses.append(by_hand(graph, {**before, i: moved}, 0.5, 3.0))
            assert found[at] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-8)


def test_an_output_without_a_loss_needs_no_targets() -> None:
    graph = two_heads()
    x, _, numbers = samples()
    info = TrainingInfo(batch_size=6, output_losses=(("0", "none"), ("1", MSE)))
    with Trainer(graph, info) as trainer:
        assert [name for name, _ in trainer.runtime.losses] == [MSE]
        trained = trainer.parameters.tensors.keys()
        losses = [
            e.training.loss for e in trainer.train(ArrayData([x], [numbers]), InOrder(6), epochs=5)
        ]
    assert len(trained) == 4  # nothing reaches the other head
    assert losses[-1] < losses[0]


def test_a_metric_looks_at_the_output_that_has_the_first_loss() -> None:
    net = Net()
    shared = net.dense(net.input(1, 5), 6)
    graph = net.graph(net.dense(shared, 3), net.add("SOFTMAX", (net.dense(shared, 4),), (1, 4)))
    x, classes, _ = samples()
    info = TrainingInfo(batch_size=6, output_losses=(("0", "none"),))
    name = "categorical_accuracy"
    spec = TensorSpec((4,), np.dtype(np.float32))
    metrics = fitting_metrics([name], "categorical_crossentropy", spec)
    with Trainer(graph, info, metrics=metrics) as trainer:
        result = trainer.evaluate(ArrayData([x], [classes]), range(6))
    w, b, v, c = (
        np.asarray(graph.tensors[i].data) for k in (0, 2) for i in graph.nodes[k].inputs[1:]
    )
    found = (x @ w.T + b) @ v.T + c
    assert result.metrics[name] == np.mean(found.argmax(axis=1) == classes.argmax(axis=1))


def test_integers_have_no_loss() -> None:
    net = Net()
    y = net.dense(net.input(1, 5), 6)
    best = net._tensor((1,), np.int64)
    axis = net.constant(1, np.int32)
    net.nodes.append(Node("ARG_MAX", (y, axis), (best,), {"output_type": 4}, 1))
    graph = net.graph(best, y)
    (loss,) = output_losses(LoweredGraphs(graph), TrainingInfo(loss=MSE))
    assert (loss.tensor, loss.output) == (y, 1)
    with pytest.raises(OptionError, match=r"must be none for tensor .*, but got `mean_squared"):
        output_losses(LoweredGraphs(graph), TrainingInfo(loss=MSE, output_losses=(("0", MSE),)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output_losses": (("x9", MSE),)}, "`output_losses=`: must be for one output, x7, x10 or"),
        ({"loss_weights": (("2", 1.0),)}, "`loss_weights=`: must be for one output, x7, x10 or"),
        ({"output_losses": (("0", "none"), ("1", "none"))}, "must give a float output a loss"),
        ({"loss_weights": (("0", 0.0), ("1", 0.0))}, "a loss and a weight above 0"),
        ({"loss": None}, '`loss=`: must be given for tensor 10 \\("x10"\\)'),
    ],
)
def test_invalid_requests_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        output_losses(LoweredGraphs(two_heads()), TrainingInfo(**{"loss": MSE, **given}))  # type: ignore[arg-type]


def test_outputs_are_given_by_number_too(tmp_path: Path) -> None:
    builder = ModelBuilder("tflite")
    x = builder.add_input((1, 4))
    builder.write(tmp_path / "m.tflite", builder.add_dense(x, 2), builder.add_dense(x, 3))
    options: dict[str, Any] = {"output_losses": {1: MSE, 0: "none"}, "loss_weights": {1: 0.5}}
    with odt.Trainer(tmp_path / "m.tflite", **options) as trainer:
        (loss,) = trainer.session.recipe.losses
    assert (loss.output, loss.name, loss.weight) == (1, MSE, 0.5)


def test_a_circle_plus_holds_one_loss() -> None:
    with pytest.raises(OptionError, match="must be left out for a circle\\+ file"):
        encode_training_info(TrainingInfo(loss=MSE, loss_weights=(("0", 2.0),)), 3)


def test_the_command_takes_losses_and_weights(tmp_path: Path) -> None:
    builder = ModelBuilder("circle", seed=0)
    x = builder.add_input((1, 5))
    shared = builder.add_dense(x, 6)
    classes = builder.add_operator("SOFTMAX", (builder.add_dense(shared, 4),), (1, 4), beta=1.0)
    builder.write(tmp_path / "m.circle", classes, builder.add_dense(shared, 3))
    values = samples()
    values[0].astype("<f4").tofile(tmp_path / "x.bin")
    with (tmp_path / "t.bin").open("wb") as file:
        for target in values[1:]:
            target.astype("<f4").tofile(file)
    command = ["train", tmp_path / "m.circle", "--load-input", tmp_path / "x.bin"]
    command += ["--load-expected", tmp_path / "t.bin", "--batch-size", 6, "--epochs", 1]
    command += ["--output-loss", "1=mean-squared-error"]

    def loss(*more: object) -> float:
        result = CliRunner().invoke(main, [*map(str, command), *map(str, more)])
        assert result.exit_code == 0, result.output
        assert "loss = categorical crossentropy, mean squared error," in result.stdout
        return float(result.stdout.partition(" loss: [0] ")[2][:6])

    both = loss()
    classes_alone = loss("--loss-weight", "1=0")
    assert loss("--loss-weight", "1=2") == pytest.approx(2 * both - classes_alone, abs=2e-4)
    loss("--export-checkpoint", tmp_path / "state.odt")
    more = ("--checkpoint", tmp_path / "state.odt", "--epochs", 2)
    loss(*more)
    without = [*map(str, command[:-2]), *map(str, more)]
    result = CliRunner().invoke(main, without)
    assert result.exit_code == 1  # it does not go on with another loss
    assert "--loss: must be given for" in result.stderr


BCE = "binary_crossentropy"


def shaped(op: str, *, last: bool, shape: tuple[int, ...] = (1, 2, 1, 3)) -> tuple[Graph, int]:
    """Two rows of three classes: a SOFTMAX or LOGISTIC behind two RESHAPEs, or in front of them."""
    net = Net()
    x = net.dense(net.input(1, 5), 6)
    rows = net.add("RESHAPE", (x,), (1, 2, 3), new_shape=(1, 2, 3))
    y = rows if last else net.add(op, (rows,), (1, 2, 3), beta=2.0)
    y = net.add("RESHAPE", (y,), (1, 1, 2, 3), new_shape=(1, 1, 2, 3))
    between = y
    y = net.add("RESHAPE", (y,), shape, new_shape=shape)
    if last:
        between, y = y, net.add(op, (y,), shape, beta=2.0)
    return net.graph(y), between


@pytest.mark.parametrize(("op", "loss"), [("SOFTMAX", CCE), ("LOGISTIC", BCE)])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
def test_cross_entropy_looks_through_operators_that_only_change_the_shape(
    op: str, loss: str, reduction: str
) -> None:
    """As with SOFTMAX or LOGISTIC last, to the bit; metrics still see probabilities."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(8, 5)).astype("f4")
    t = np.eye(3, dtype="f4")[rng.integers(0, 3, (8, 2, 1))]
    info = TrainingInfo("sgd", {}, 0.1, loss=loss, batch_size=4, reduction=reduction)
    found = []
    for last in (True, False):
        graph, between = shaped(op, last=last)
        (head,) = output_losses(LoweredGraphs(graph), info)
        assert head.options["from_logits"]
        assert head.tensor == between
        with Trainer(graph, info, micro_batch=4, workers=1, outputs=True) as trainer:
            epochs = list(trainer.train(ArrayData([x], [t]), InOrder(8), epochs=3))
        losses = [e.training.loss for e in epochs]
        with Predictor(graph, 8) as predictor:
            ((y, *_),) = predictor.run(ArrayData([x], ()), range(8))
            found.append((losses, y.copy()))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    if op == "SOFTMAX":
        np.testing.assert_allclose(found[1][1].sum(axis=-1), 1, rtol=1e-6)


def test_a_sure_and_wrong_sample_gets_a_gradient_behind_a_reshape() -> None:
    net = Net()
    x = net.input(1, 2)
    w = net.constant([[200.0, 0.0], [0.0, 200.0]])
    y = net.add("FULLY_CONNECTED", (x, w, -1), (1, 2))
    y = net.add("SOFTMAX", (y,), (1, 2), beta=1.0)
    graph = net.graph(net.add("RESHAPE", (y,), (1, 1, 2), new_shape=(1, 1, 2)))
    info = TrainingInfo("sgd", {}, 1.0, batch_size=1)
    data = ArrayData([np.array([[1, 0]], "f4")], [np.array([[[0, 1]]], "f4")])
    with Trainer(graph, info) as trainer:
        (epoch,) = trainer.train(data, InOrder(1), epochs=1)
        (after,) = trainer.parameters.tensors.values()
    assert epoch.training.loss == pytest.approx(200)
    np.testing.assert_allclose(after, [[199, 0], [1, 200]])


@pytest.mark.parametrize(("op", "loss"), [("SOFTMAX", CCE), ("LOGISTIC", BCE)])
def test_cross_entropy_looks_through_a_rounding_of_the_output(op: str, loss: str) -> None:
    """The default loss, to the bit: values beyond the limits would have no gradient."""
    limits: dict[str, Any] = {"num_bits": 8, "min": 0.0, "max": 0.5, "narrow_range": False}
    rng = np.random.default_rng(4)
    x, t = rng.normal(size=(8, 5)).astype("f4"), np.eye(6, dtype="f4")[rng.integers(0, 6, 8)]
    info = TrainingInfo("sgd", {}, 0.1, batch_size=4)
    found = []
    for rounds in (False, True):
        net = Net()
        logits = net.dense(net.input(1, 5), 6)
        y = net.add(op, (logits,), (1, 6), beta=1.0)
        if rounds:
            y = net.add("FAKE_QUANT", (y,), (1, 6), **limits)
        graph = net.graph(y)
        (head,) = output_losses(LoweredGraphs(graph), info)
        assert (head.name, head.tensor, head.options["from_logits"]) == (loss, logits, True)
        with Trainer(graph, info) as trainer:
            epochs = trainer.train(ArrayData([x], [t]), InOrder(8), epochs=3)
            found.append([e.training.loss for e in epochs])
    assert found[0] == found[1]


@pytest.mark.parametrize("first", ["RESHAPE", "FAKE_QUANT"])
def test_rounded_probabilities_are_no_logits(first: str) -> None:
    options: dict[str, Any] = {"num_bits": 8, "min": 0.0, "max": 1.0, "narrow_range": False}
    net = Net()
    y = net.add("SOFTMAX", (net.dense(net.input(1, 5), 6),), (1, 6), beta=1.0)
    tensors = [y]
    for op in (first, "FAKE_QUANT" if first == "RESHAPE" else "RESHAPE"):
        more = options if op == "FAKE_QUANT" else {"new_shape": (1, 6)}
        tensors.append(net.add(op, (tensors[-1],), (1, 6), **more))
    (head,) = output_losses(LoweredGraphs(net.graph(tensors[-1])), TrainingInfo())
    assert (head.name, head.options["from_logits"]) == (CCE, False)
    assert head.tensor == tensors[1 if first == "RESHAPE" else 2]  # before a last rounding


@pytest.mark.parametrize("why", ["other rows", "another reader", "another output"])
def test_probabilities_that_cannot_come_last_stay_probabilities(why: str) -> None:
    graph, between = shaped(
        "SOFTMAX", last=False, shape=(1, 3, 2) if why == "other rows" else (1, 2, 3)
    )
    if why == "another reader":
        net = Net()
        x = net.dense(net.input(1, 5), 6)
        p = net.add("SOFTMAX", (x,), (1, 6), beta=1.0)
        y = net.add("RESHAPE", (p,), (1, 1, 6), new_shape=(1, 1, 6))
        graph = net.graph(y, net.dense(p, 2))
    if why == "another output":
        graph = replace(graph, outputs=(*graph.outputs, between))
    info = TrainingInfo(
        batch_size=4, output_losses=(("0", CCE), ("1", "none"))[: len(graph.outputs)]
    )
    head, *_ = output_losses(LoweredGraphs(graph), info)
    assert (head.tensor, head.options["from_logits"]) == (graph.outputs[0], False)
    inputs = np.random.default_rng(1).normal(size=(4, 5)).astype("f4")
    shape = graph.tensors[graph.outputs[0]].spec.shape[1:]
    with Trainer(graph, info) as trainer:
        loss = trainer.evaluate(
            ArrayData([inputs], [np.full((4, *shape), 0.1, "f4")]), range(4)
        ).loss
    assert np.isfinite(loss)


def test_an_output_of_integers_alone_is_refused_by_its_type() -> None:
    net = Net()
    y = net.add("CAST", (net.dense(net.input(1, 5), 6),), (1, 6))
    net.tensors[y] = replace(net.tensors[y], spec=TensorSpec((1, 6), np.dtype(np.uint8)))
    with pytest.raises(OptionError, match=r'none among tensor 4 \("x4"\) \(1, 6\) uint8'):
        output_losses(LoweredGraphs(net.graph(y)), TrainingInfo(loss=MSE))


def test_an_output_whose_shape_the_file_leaves_out_trains(tmp_path: Path) -> None:
    """TOCO writes no shapes where an image's size may change; only the input's is there."""
    builder = ModelBuilder("tflite", seed=0)
    y = builder.add_dense(builder.add_dense(builder.add_input((1, 5)), 6), 3)
    for operator in builder.graph.operators:
        builder.graph.tensors[operator.outputs[0]].shape = []
    builder.write(tmp_path / "m.tflite", y)
    x, _, numbers = samples()
    x.astype("<f4").tofile(tmp_path / "x.bin")
    numbers.astype("<f4").tofile(tmp_path / "t.bin")
    line = ["--loss", MSE, "--batch-size", "6", "--load-input", str(tmp_path / "x.bin")]
    line += ["--load-expected", str(tmp_path / "t.bin")]
    for command in ("check", "train", "eval"):
        result = CliRunner().invoke(main, [command, str(tmp_path / "m.tflite"), *line])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1=mean-squared-error", ("1", "mean_squared_error")),
        ("boxes=huber:delta=0.5", ("boxes", "huber:delta=0.5")),
        ("a=b/c=huber:delta=0.5", ("a=b/c", "huber:delta=0.5")),
    ],
)
def test_equals_signs_may_stand_in_names_and_in_losses(
    text: str, expected: tuple[str, str]
) -> None:
    assert OfOutput(LossText(LOSSES), "OUTPUT=LOSS").convert(text, None, None) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [("huber", "must be OUTPUT=LOSS"), ("=huber", "must be OUTPUT=LOSS"), ("1=hubr", "hubr")],
)
def test_a_loss_without_an_output_and_an_unknown_loss_are_refused(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        OfOutput(LossText(LOSSES), "OUTPUT=LOSS").convert(text, None, None)
