"""Training of what tico converts from PyTorch: losses and gradients are those that torch recorded.

tools/make_torch_models.py wrote the files; each .npz has the gradient of every weight that torch
trains, under its name in the model file. All other constants are frozen here.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.losses import Losses
from support.networks import ArrayData, InOrder
from support.paths import GOLDEN_TORCH

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.trainable import trainable_tensors
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array

CASES: list[dict[str, Any]] = json.loads((GOLDEN_TORCH / "cases.json").read_text())["cases"]
NAMES = [case["name"] for case in CASES]
LOSS = {"cce": "categorical_crossentropy", "mse": "mean_squared_error"}
GRADIENT = "gradient "
RATE = 2.0**10


@dataclass
class Run:
    """What training gave; the weights by their names in the file."""

    losses: list[float]
    before: dict[str, Array]
    after: dict[str, Array]


def recorded(case: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and targets; and torch's first gradients by the names of the weights."""
    arrays: dict[str, Array] = dict(np.load(GOLDEN_TORCH / f"{case['name']}.npz"))
    gradients = {k.removeprefix(GRADIENT): a for k, a in arrays.items() if k.startswith(GRADIENT)}
    return {k: a for k, a in arrays.items() if not k.startswith(GRADIENT)}, gradients


def train(case: dict[str, Any], optimizer: str, rate: float, steps: int, **options: int) -> Run:
    """Trains what torch trained.

    Args:
        options: options of the trainer: micro_batch, workers.
    """
    graph = read_model(str(GOLDEN_TORCH / f"{case['name']}.circle")).graph
    arrays, _ = recorded(case)
    info = TrainingInfo(
        optimizer=optimizer,
        learning_rate=rate,
        loss=LOSS[case["loss"]],
        batch_size=case["batch_size"],
    )
    samples = np.arange(steps * case["batch_size"]) % len(arrays["targets"])
    inputs = [arrays[f"input{i}"][samples] for i in range(len(graph.inputs))]
    data = ArrayData(inputs, [arrays["targets"][samples]])
    losses = Losses()
    with Trainer(graph, info, **options) as trainer:  # type: ignore[arg-type]  # ints all

        def weights() -> dict[str, Array]:
            return {graph.tensors[i].name: a.copy() for i, a in trainer.parameters.tensors.items()}

        before = weights()
        list(trainer.train(data, InOrder(len(samples)), epochs=1, watch=losses))
        return Run(losses.all, before, weights())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_ten_losses_are_torchs(case: dict[str, Any], optimizer: str) -> None:
    told = case[optimizer]
    run = train(case, optimizer, told["learning_rate"], len(told["losses"]))
    assert len(run.losses) == 10
    np.testing.assert_allclose(run.losses, told["losses"], rtol=1e-4)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_first_gradients_are_torchs(case: dict[str, Any], cut: bool) -> None:
    """A step of SGD with a large rate, so that the differences of weights are exact enough."""
    options = {"micro_batch": 1, "workers": 2} if cut else {}
    run = train(case, "sgd", RATE, 1, **options)
    gradients = recorded(case)[1]
    assert run.before.keys() == gradients.keys()
    whole = np.sqrt(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in gradients.values()))
    for name, theirs in gradients.items():
        ours = (run.before[name].astype(np.float64) - run.after[name]) / RATE
        bound = 1e-4 * np.linalg.norm(theirs) + 1e-6 * whole  # the gradient of keys' bias is 0
        assert np.linalg.norm(ours - theirs) <= bound, name


def test_check_knows_the_bias_that_no_loss_depends_on() -> None:
    """Softmax does not notice what all its inputs share: the bias of attention's keys is free."""
    model = str(GOLDEN_TORCH / "transformer.circle")
    result = CliRunner().invoke(
        main, ["check", model, "--loss", "mean-squared-error", "--batch-size", "4"]
    )
    assert result.exit_code == 0, result.output
    assert "_keys_bias_bias_fused, on which the loss does not depend" in result.stdout
    assert "weight_weight_fused, which" not in result.stdout


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_parameters_of_torch_train_by_default(case: dict[str, Any]) -> None:
    graph = read_model(str(GOLDEN_TORCH / f"{case['name']}.circle")).graph
    lowered = LoweredGraphs(graph).at_file_batch
    trained = trainable_tensors(lowered, {n.origin for n in graph.nodes})
    assert {graph.tensors[i].name for i in trained} == recorded(case)[1].keys()
