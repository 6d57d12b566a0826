"""Distillation: the loss of a student against its formula, from a model and from stored outputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.kernels.rows.opdef import Array

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 10, 96)
X = (RNG.normal(size=(10, 784))[LABELS] / 4 + RNG.normal(size=(96, 784))).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[LABELS]


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


@pytest.fixture(scope="module", name="teacher")
def trained_teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("teacher") / "teacher.circle"
    with odt.Trainer(MODEL, batch_size=96) as trainer:
        trainer.fit(X, Y, epochs=8)
        trainer.export(path)
    return path


def probabilities(model: Path) -> Array:
    with odt.Trainer(model) as trainer:
        return np.asarray(trainer.predict(X), np.float64)


def first_step(teacher: odt.Teacher, **options: Any) -> tuple[float, dict[str, Array]]:
    """Loss of the first step of SGD on all samples, and the gradients it applied."""
    sgd = odt.SGD(1.0)
    with odt.Trainer(MODEL, optimizer=sgd, batch_size=96, teacher=teacher, **options) as trainer:
        before = {n: a.copy() for n, a in trainer.weights.items()}
        history = trainer.fit(X, Y, fine_tune=False)
        return history.history["loss"][0], {n: before[n] - a for n, a in trainer.weights.items()}


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
@pytest.mark.parametrize(("temperature", "weight"), [(1.0, 0.5), (4.0, 0.9), (2.0, 1.0)])
def test_loss_and_gradient_are_those_of_the_formula(
    temperature: float, weight: float, teacher: Path
) -> None:
    q, p = (np.log(probabilities(m)) for m in (teacher, MODEL))  # logits but for a constant
    soft_q, soft_p = softmax(q / temperature), softmax(p / temperature)
    hard = -(Y * np.log(softmax(p))).sum(1).mean()
    soft = (soft_q * np.log(soft_q / soft_p)).sum(1).mean()
    wanted = (1 - weight) * hard + weight * temperature**2 * soft
    given = odt.Teacher(teacher, temperature=temperature, weight=weight)
    loss, gradients = first_step(given)
    assert loss == pytest.approx(wanted, rel=1e-5)
    bias = gradients[min(gradients, key=lambda n: gradients[n].size)]
    derivative = (1 - weight) * (softmax(p) - Y) + weight * temperature * (soft_p - soft_q)
    np.testing.assert_allclose(bias, derivative.mean(axis=0), rtol=1e-4, atol=1e-7)


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
def test_stored_probabilities_and_logits_teach_as_the_model_does(
    teacher: Path, tmp_path: Path
) -> None:
    found = [first_step(odt.Teacher(teacher, temperature=3))]
    outputs = probabilities(teacher).astype(np.float32)
    np.save(tmp_path / "outputs.npy", np.log(outputs) + 7)
    for stored in (outputs, tmp_path / "outputs.npy"):
        found.append(first_step(odt.Teacher(outputs=stored, temperature=3)))
    for loss, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        for name, values in found[0][1].items():
            np.testing.assert_allclose(gradients[name], values, rtol=1e-3, atol=1e-6)


def test_labels_may_be_class_numbers(teacher: Path) -> None:
    losses = []
    for y, loss in ((Y, "cce"), (LABELS.astype(np.int32), "sparse_categorical_crossentropy")):
        with odt.Trainer(MODEL, teacher=teacher, loss=loss) as trainer:
            losses.append(trainer.fit(X, y, epochs=2, seed=1).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_validation_is_of_the_targets_alone(teacher: Path) -> None:
    with odt.Trainer(MODEL, teacher=teacher, metrics=["accuracy"]) as trainer:
        history = trainer.fit(X, Y, epochs=2, validation_data=(X[:30], Y[:30]))
        values = trainer.evaluate(X[:30], Y[:30])
    assert history.history["val_loss"][-1] == pytest.approx(values["loss"], rel=1e-6)
    assert history.history["val_accuracy"][-1] == values["accuracy"]


@pytest.mark.usefixtures("training_alone")
def test_a_memory_budget_holds_for_the_teacher_too(tmp_path: Path) -> None:
    b, path = ModelBuilder(), tmp_path / "wide.circle"
    b.write(path, b.add_dense(b.add_dense(b.add_input((1, 784)), 4000), 10))
    short = r"at least 1\d\.\dMB to compute the teacher's outputs, but got 8\.0MB"
    with (
        odt.Trainer(MODEL, teacher=path, memory_budget="8MB") as trainer,
        pytest.raises(odt.OptionError, match=short),
    ):
        trainer.fit(X, Y)
    losses = []
    for budget in (None, "40MB"):
        with odt.Trainer(MODEL, teacher=path, memory_budget=budget) as trainer:
            losses.append(trainer.fit(X, Y, seed=1).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_a_student_of_a_good_teacher_learns_from_few_labels(teacher: Path) -> None:
    """With labels that are all wrong, the teacher alone leads to the right classes."""
    wrong = np.roll(Y, 3, axis=1)
    with odt.Trainer(MODEL, teacher=odt.Teacher(teacher, weight=0.95), batch_size=16) as trainer:
        trainer.fit(X, wrong, epochs=8)
        right = (trainer.predict(X).argmax(1) == LABELS).mean()
    assert right > 0.8


def test_regressions_take_the_outputs_as_targets() -> None:
    sine = MODELS / "tflm-hello-world-sine-float.tflite"
    x = np.linspace(0, 6, 64, dtype=np.float32)[:, None]
    outputs = np.sin(x) + 1
    options: dict[str, Any] = {"loss": "mse", "batch_size": 64, "learning_rate": 1e-30}
    with odt.Trainer(sine, **options) as plain:
        y = np.asarray(plain.predict(x), np.float64)
    with odt.Trainer(
        sine, teacher=odt.Teacher(outputs=outputs, temperature=1, weight=0.25), **options
    ) as trainer:
        loss = trainer.fit(x, np.zeros_like(x)).history["loss"][0]
    assert loss == pytest.approx(
        0.75 * (y**2).mean() + 0.25 * ((y - outputs) ** 2).mean(), rel=1e-4
    )
    with (
        odt.Trainer(sine, teacher=odt.Teacher(outputs=outputs), **options) as trainer,
        pytest.raises(
            odt.OptionError, match="`temperature=`: must be 1 for a model without logits"
        ),
    ):
        trainer.fit(x, x)


def test_a_distillation_resumes_with_its_teacher(tmp_path: Path) -> None:
    state = tmp_path / "state.odt"
    with odt.Trainer(MODEL, teacher=odt.Teacher(outputs=Y)) as trainer:
        trainer.fit(X, Y, save_to=state)
    rule = "`teacher=`: must be given to resume a distillation, but got none. .*new_data"
    with odt.Trainer(MODEL, checkpoint=state) as trainer:
        with pytest.raises(odt.OptionError, match=rule):
            trainer.fit(X, Y, epochs=2)
        assert trainer.fit(X, Y, epochs=1, new_data=True).epoch == [0]


def test_the_teacher_is_part_of_memory_and_budget(teacher: Path) -> None:
    with odt.Trainer(MODEL, teacher=teacher) as trainer:
        trainer.fit(X, Y)
        assert trainer.session.build().memory().taught == 96 * 10 * 4
    assert odt.plan(MODEL, teacher=teacher).arenas >= odt.plan(MODEL).arenas


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "`teacher=`, `teacher_outputs=`: one of them must be given, but got none"),
        ({"model": "m", "outputs": X}, "one of them must be given, but got both"),
        ({"model": "m", "temperature": 0}, "`temperature=`: must be a number above 0"),
        ({"model": "m", "weight": 1.5}, "`teacher_weight=`: must be above 0, up to 1, but got 1.5"),
    ],
)
def test_impossible_teachers_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(odt.OptionError, match=message):
        odt.Teacher(**options)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        (odt.Teacher(MODELS / "tflm-hello-world-sine-float.tflite"), "must have the student's inp"),
        (odt.Teacher(outputs=Y[:20]), "must hold the outputs of all 96 samples, but got 20"),
    ],
)
def test_teachers_of_other_data_are_refused(teacher: odt.Teacher, message: str) -> None:
    with (
        odt.Trainer(MODEL, teacher=teacher) as trainer,
        pytest.raises(odt.OptionError, match=message),
    ):
        trainer.fit(X, Y)


def test_single_batches_have_no_teacher(teacher: Path) -> None:
    with (
        odt.Trainer(MODEL, teacher=teacher) as trainer,
        pytest.raises(odt.OptionError, match="`teacher=`: must come with `fit`"),
    ):
        trainer.train_on_batch(X, Y)


def test_the_command_line_has_a_teacher(teacher: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")

    def run(command: str, model: Path, *words: object) -> Result:
        return CliRunner().invoke(main, [command, str(model), *map(str, words)])

    def train(*words: object) -> Result:
        return run("train", MODEL, *data, "--epochs", 2, *words)

    outputs, files = tmp_path / "outputs.npy", [tmp_path / f"{k}.circle" for k in range(2)]
    assert run("predict", teacher, *data[:2], "--output", outputs).exit_code == 0
    options = ("--temperature", 4, "--teacher-weight", 0.8)
    done = train("--teacher", teacher, *options, "--export-circle", files[0])
    assert done.exit_code == 0, done.output
    assert "- teacher    =         3,840 bytes  outputs of the teacher" in done.stdout
    done = train("--teacher-outputs", outputs, *options, "--export-circle", files[1])
    assert done.exit_code == 0, done.output
    assert "- teacher" not in done.stdout
    weights = [odt.load_model(path).parameters for path in files]
    for name, values in weights[0].items():
        np.testing.assert_allclose(weights[1][name], values, atol=1e-5)
    assert "--temperature: must come with --teacher or" in train("--temperature", 2).stderr
    both = train("--teacher", teacher, "--teacher-outputs", outputs)
    assert "--teacher, --teacher-outputs: one of them must be given" in both.stderr
    state = tmp_path / "state.odt"
    train("--teacher", teacher, "--export-checkpoint", state)
    assert (
        "--teacher: must be given to resume" in train("--checkpoint", state, "--epochs", 3).stderr
    )


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
def test_a_quantized_student_learns_from_its_float_original() -> None:
    """The teacher reads the real numbers of the student's integers."""
    student = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
    original = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
    x = RNG.integers(0, 256, (16, 32, 32, 3)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 16)]
    with odt.Trainer(original, batch_size=16) as trainer:
        outputs = trainer.predict(x)
    first, second = (
        odt.Trainer(student, batch_size=16, teacher=teacher)
        .fit(x, y, epochs=2, seed=1)
        .history["loss"]
        for teacher in (odt.Teacher(original), odt.Teacher(outputs=outputs))
    )
    assert first == pytest.approx(second, rel=1e-5)
    flat = odt.Teacher(MLP_SM / "model.circle")
    with pytest.raises(odt.OptionError, match="must have the student's inputs"):
        odt.Trainer(student, batch_size=16, teacher=flat).fit(x, y)
