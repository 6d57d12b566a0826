"""Outputs that are each true or false by themselves: LOGISTIC and binary cross-entropy."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.networks import ArrayData, InOrder, Net

from odt.cli.main import main
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.output_losses import output_losses
from odt.core.training.random_data import RandomData
from odt.core.training.trainer import Trainer
from odt.errors import OptionError
from odt.kernels.rows.lossdef import draw_classes
from odt.kernels.rows.opdef import TensorSpec

BCE = "binary_crossentropy"
SAMPLES, UNITS = 6, 3


def tagger(dtype: type[np.floating] = np.float64) -> Graph:
    net = Net(dtype)
    return net.graph(net.add("LOGISTIC", (net.dense(net.input(1, 5), UNITS),), (1, UNITS)))


@pytest.mark.parametrize("name", [None, BCE])
def test_a_final_logistic_has_this_loss_on_its_logits(name: str | None) -> None:
    graph = tagger()
    (loss,) = output_losses(LoweredGraphs(graph), TrainingInfo(loss=name))
    assert loss.name == BCE
    assert loss.tensor == graph.nodes[-1].inputs[0]
    assert loss.options["from_logits"]


@pytest.mark.parametrize(
    ("operators", "from_logits"),
    [((), True), (("SOFTMAX", "RESHAPE"), False), (("SOFTMAX",), False), (("RELU",), True)],
)
def test_outputs_that_are_no_probabilities_are_logits(
    operators: tuple[str, ...], from_logits: bool
) -> None:
    net = Net()
    y = net.dense(net.input(1, 5), UNITS)
    for operator in operators:
        shape = (1, UNITS, 1) if operator == "RESHAPE" else (1, UNITS)
        inputs = (y, net.constant(shape, np.int32)) if operator == "RESHAPE" else (y,)
        y = net.add(operator, inputs, shape)
    (loss,) = output_losses(LoweredGraphs(net.graph(y)), TrainingInfo(loss=BCE))
    assert (loss.tensor, loss.options["from_logits"]) == (y, from_logits)


def test_a_step_is_that_of_the_formula() -> None:
    """d loss / d w = (p − t)ᵀ x / (samples · units), in float64; micro-batches add up to it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(SAMPLES, 5))
    t = rng.integers(0, 2, (SAMPLES, UNITS)).astype(float)
    t[0, 0] = 0.3
    info = TrainingInfo("sgd", {}, 1.0, batch_size=SAMPLES)
    with Trainer(tagger(), info, micro_batch=2, workers=2) as trainer:
        w, b = (a.copy() for a in trainer.parameters.tensors.values())
        (epoch,) = trainer.train(ArrayData([x], [t]), InOrder(SAMPLES), epochs=1)
        after_w, after_b = trainer.parameters.tensors.values()
        p = 1 / (1 + np.exp(-(x @ w.T + b)))
        loss = -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p))
        assert epoch.training.loss == pytest.approx(loss, rel=1e-12)
        slope = (p - t) / (SAMPLES * UNITS)
        np.testing.assert_allclose(w - after_w, slope.T @ x, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(b - after_b, slope.sum(axis=0), rtol=1e-9, atol=1e-15)


def test_logits_that_saturate_keep_a_finite_loss() -> None:
    """p is exactly 1 in float32, yet the loss is the logit, and training goes on."""
    x = np.full((SAMPLES, 5), 1e3)
    info = TrainingInfo("sgd", {}, 1e-6, batch_size=SAMPLES)
    with Trainer(tagger(np.float32), info) as trainer:
        w, b = (a.astype(float) for a in trainer.parameters.tensors.values())
        z = x @ w.T + b
        t = (z < 0).astype(float)
        (epoch,) = trainer.train(ArrayData([x], [t]), InOrder(SAMPLES), epochs=1)
    assert np.abs(z).min() > 50
    assert epoch.training.loss == pytest.approx(np.abs(z).mean(), rel=1e-5)


def test_one_unit_gets_random_targets_of_both_kinds() -> None:
    spec = TensorSpec((1,), np.dtype(np.float32))
    out = np.empty((32, 1), np.float32)
    RandomData([], [spec], [draw_classes]).read(range(32), [], [out])
    assert set(out.ravel()) == {0, 1}


def test_a_circle_plus_cannot_hold_the_loss() -> None:
    with pytest.raises(OptionError, match=r"must be .* in a circle\+ file, but got `binary_cross"):
        encode_training_info(TrainingInfo(loss=BCE), 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.circle, and samples whose tag k says whether value k is above 0."""
    model = ModelBuilder("circle", seed=0)
    y = model.add_dense(model.add_input((1, 5)), UNITS)
    model.write(tmp_path / "m.circle", model.add_operator("LOGISTIC", (y,), (1, UNITS)))
    x = np.random.default_rng(2).normal(size=(256, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "t.npy", (x[:, :UNITS] > 0).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def odt(line: str) -> Result:
    return CliRunner().invoke(main, line.split())


TRAIN = "train m.circle --load-input x.npy --load-expected t.npy --learning-rate 0.03"


@pytest.mark.parametrize("loss", ["", "--loss binary-crossentropy"])
def test_tags_are_learned(loss: str, folder: Path) -> None:
    result = odt(f"{TRAIN} {loss} --epochs 20 --metric accuracy --export-circle y.circle")
    assert result.exit_code == 0, result.output
    assert "loss = binary crossentropy, " in result.stdout
    line = odt("eval y.circle --load-input x.npy --load-expected t.npy --metric accuracy").stdout
    assert " accuracy: [0] 0.9" in line, line


def test_a_model_of_tags_passes_its_check(folder: Path) -> None:
    result = odt("check m.circle")
    assert result.exit_code == 0, result.output


def test_a_circle_plus_is_refused_before_training(folder: Path) -> None:
    result = odt(f"{TRAIN} --epochs 1 --export-circleplus p.circle")
    assert (result.exit_code, "Epoch" in result.stdout) == (1, False)
    assert "Export a Circle model, and give the loss again." in result.stderr


def test_targets_outside_0_to_1_are_named(folder: Path) -> None:
    t = np.load("t.npy")
    t[5, 1] = 1.5
    np.save("t.npy", t)
    result = odt(f"{TRAIN} --epochs 1")
    assert result.exit_code == 1
    assert "sample 5" in result.stderr
    assert "must be 0 … 1, but got 1.5" in result.stderr
