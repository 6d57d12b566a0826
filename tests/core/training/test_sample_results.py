"""Results of single samples: losses in batches of any size, and probabilities."""

from statistics import stdev

import numpy as np
import pytest
from support.networks import ArrayData, Net

from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.inference import Evaluator
from odt.core.training.sample_results import SampleResults
from odt.kernels.rows.metricdef import FLAGS, NUMBERS, OutputForm
from odt.kernels.rows.opdef import TensorSpec

MSE = "mean_squared_error"
SAMPLES = 11
F64 = np.dtype(np.float64)


def two_heads() -> Graph:
    """Two outputs: classes at 3 positions of a sample, and 2 values."""
    net = Net(np.float64)
    x = net.input(1, 5)
    rows = net.add("RESHAPE", (net.dense(x, 12),), (1, 3, 4), new_shape=(1, 3, 4))
    return net.graph(net.add("SOFTMAX", (rows,), (1, 3, 4), beta=1.0), net.dense(x, 2))


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
@pytest.mark.parametrize(("batch", "workers"), [(4, 1), (4, 2), (11, 2), (1, 1)])
def test_losses_are_those_of_the_samples_alone(batch: int, workers: int, reduction: str) -> None:
    rng = np.random.default_rng(5)
    targets = [np.eye(4)[rng.integers(0, 4, (SAMPLES, 3))], rng.normal(size=(SAMPLES, 2))]
    data = ArrayData([rng.normal(size=(SAMPLES, 5))], targets)
    info = TrainingInfo(
        batch_size=batch,
        reduction=reduction,
        output_losses=(("1", MSE),),
        loss_weights=(("0", 0.5), ("1", 3.0)),
    )
    form, spec = OutputForm(NUMBERS, 4), TensorSpec((3, 4), F64)
    results = SampleResults(SAMPLES, form, spec)
    order = [*range(5, SAMPLES), *range(5)]
    with Evaluator(two_heads(), info, workers=workers) as evaluator:
        whole = evaluator.run(data, order, {}, each=results.add)
        alone = [evaluator.run(data, [k], {}).loss for k in range(SAMPLES)]
    np.testing.assert_allclose(results.losses, alone, 1e-12)
    steps = [np.take(alone, order[at : at + batch]) for at in range(0, SAMPLES, batch)]
    losses = [step.sum() if reduction == "sum" else step.mean() for step in steps]
    mean = np.mean(losses if reduction == "sum" else alone)
    assert whole.loss == pytest.approx(mean, rel=1e-12)
    spread = stdev(losses) if len(losses) > 1 else np.nan
    assert whole.spread == pytest.approx(spread, rel=1e-9, nan_ok=True)
    assert results.true is None  # a sample has several values
    assert list(results.wrong) == list(np.argsort(-np.array(alone)))


def test_probabilities_of_large_logits_do_not_overflow() -> None:
    results = SampleResults(2, OutputForm(FLAGS, 1, logits=True), TensorSpec((1,), F64))
    with np.errstate(over="raise"):
        results.add(0, 0.0, np.array([-1000.0]), np.array([0.0]))
        results.add(1, 0.0, np.array([2.0]), np.array([1.0]))
    assert results.probability is not None
    np.testing.assert_allclose(results.probability, [1.0, 1 / (1 + np.exp(-2.0))], 1e-12)
