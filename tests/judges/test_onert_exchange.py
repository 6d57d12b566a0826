"""circle+ between onert and odt, both ways: the same values, and the same losses from there on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.onert_party import HAVE_ONERT, onert_trains
from support.paths import GOLDEN, MLP_SM, MODELS

from odt.core.export.exporter import add_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.experimental.train.nnfw import nnfw_session
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.skipif(
    not HAVE_ONERT, reason="onert has wheels for Linux on x86-64 and aarch64, Python 3.10 to 3.12"
)

SGD = TrainingInfo(optimizer="sgd", learning_rate=0.01, loss="mean_squared_error", batch_size=4)
ADAM = TrainingInfo(learning_rate=0.001, loss="categorical_crossentropy", batch_size=4)
FROM_FILES = {
    "mlp": MLP_SM / "model.circle",
    "cnn": GOLDEN / "mnist" / "model.circle",
    "resnet8": MODELS / "mlperf-tiny-resnet8-cifar10.tflite",
    "mobilenet": MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite",
}


def two_inputs(path: Path) -> None:
    """FULLY_CONNECTED of one input, plus the other, through a second one to a SOFTMAX."""
    model = ModelBuilder(seed=3)
    a, b = model.add_input((1, 6)), model.add_input((1, 8))
    h = model.add_operator("ADD", [model.add_dense(a, 8), b], (1, 8))
    y = model.add_operator("SOFTMAX", [model.add_dense(h, 5)], (1, 5), beta=1.0)
    model.write(path, y)


def circle_plus(name: str, info: TrainingInfo, last: int | None, path: Path) -> None:
    """Writes a model as circle+; the last operators train, or all."""
    source = FROM_FILES.get(name, path)
    if source == path:
        two_inputs(path)
    model = read_model(source)
    total = len(model.graph.nodes)
    trainable = None if last is None else tuple(range(total - last, total))
    add_training_info(model, replace(info, trainable_ops=trainable), path)


def samples(path: Path, steps: int, batch: int) -> tuple[list[Array], Array]:
    """Random inputs and one-hot targets, steps × batch × shape of a sample."""
    graph, rng = read_model(path).graph, np.random.default_rng(5)
    shapes = [graph.tensors[i].spec.shape[1:] for i in graph.inputs]
    inputs = [rng.random((steps, batch, *shape), np.float32) for shape in shapes]
    classes = graph.tensors[graph.outputs[0]].spec.shape[-1]
    return inputs, np.eye(classes, dtype=np.float32)[rng.integers(0, classes, (steps, batch))]


def odt_trains(path: Path, inputs: list[Array], targets: Array, plus: Path | None) -> list[float]:
    """Our losses with what the file says; exports a circle+ at the end."""
    session = nnfw_session(path)
    session.train_prepare()
    losses = []
    for step, t in enumerate(targets):
        for k, a in enumerate(inputs):
            session.train_set_input(k, a[step])
        session.train_set_expected(0, t)
        session.train()
        losses.append(session.train_get_loss(0))
    if plus:
        session.train_export_circleplus(plus)
    return losses


CASES = [
    ("mlp", SGD, None),
    ("mlp", ADAM, None),
    ("mlp", replace(SGD, reduction="sum", loss="categorical_crossentropy"), 2),
    ("cnn", ADAM, None),
    ("cnn", ADAM, 4),
    ("resnet8", ADAM, None),
    ("resnet8", SGD, 5),
    ("mobilenet", replace(ADAM, batch_size=2), None),
    ("two inputs", SGD, None),
    ("two inputs", ADAM, 2),
]


@pytest.mark.parametrize(("name", "info", "last"), CASES)
def test_each_resumes_from_the_others_circle_plus(
    name: str, info: TrainingInfo, last: int | None, tmp_path: Path
) -> None:
    steps, first = (2, 1) if name == "mobilenet" else (3, 3)
    start, theirs, ours = (tmp_path / f"{n}.circle" for n in "mto")
    circle_plus(name, info, last, start)
    inputs, targets = samples(start, steps, info.batch_size)

    their_losses, read = onert_trains(tmp_path, start.name, inputs, targets, circleplus=theirs.name)
    assert read == {
        "learning_rate": pytest.approx(info.learning_rate),
        "batch_size": info.batch_size,
        "loss": {"mean_squared_error": 1, "categorical_crossentropy": 2}[str(info.loss)],
        "reduction": {"sum_over_batch_size": 1, "sum": 2}[info.reduction],
        "opt": {"sgd": 1, "adam": 2}[info.optimizer],
        "num_of_trainable_ops": -1 if last is None else last,
    }
    our_losses = odt_trains(start, inputs, targets, ours)
    np.testing.assert_allclose(our_losses, their_losses, rtol=1e-4)

    stored = [stored_training_info(read_model(p)) for p in (start, theirs, ours)]
    fields = [
        (i.optimizer, i.learning_rate, i.loss, i.reduction, i.batch_size, i.trainable_ops)
        for i in stored
        if i is not None
    ]
    assert fields[0] == fields[1] == fields[2]

    for path in (theirs, ours):  # both have other weights than the start, and go on alike
        inputs_on, targets_on = [a[:first] for a in inputs], targets[:first]
        went_on = onert_trains(tmp_path, path.name, inputs_on, targets_on)[0]
        np.testing.assert_allclose(
            odt_trains(path, inputs_on, targets_on, None), went_on, rtol=1e-4
        )
        assert went_on[0] != their_losses[0]
