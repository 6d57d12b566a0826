"""Arguments that no training can use are refused: one error, never numbers made of nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.paths import MLP_SM

import odt

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(32, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 32)]

Use = Callable[[odt.Trainer], object]

DATA: dict[str, tuple[Use, str]] = {
    "training without targets": (lambda t: t.fit(X), "y: must be given"),
    "a batch without targets": (lambda t: t.train_on_batch(X[:4], None), "y: must be given"),
    "gradients without targets": (lambda t: t.forward_backward(X[:4], None), "y: must be given"),
    "evaluation without targets": (lambda t: t.evaluate(X), "y: must be given"),
    "evaluation of no batches": (lambda t: t.evaluate([]), "x: must give batches"),
    "validation without targets": (lambda t: t.fit(X, Y, validation_data=X), "y: must be given"),
    "validation data of three": (
        lambda t: t.fit(X, Y, validation_data=(X, Y, Y)),
        "validation_data: must be (x, y) or a DataSet, but got 3 values.",
    ),
    "validation of no samples": (
        lambda t: t.fit(X, Y, validation_data=(X[:0], Y[:0])),
        "x: must hold samples, but holds none.",
    ),
    "training on no samples": (lambda t: t.fit(X[:0], Y[:0]), "x: must hold samples"),
    "evaluation of no samples": (lambda t: t.evaluate(X[:0], Y[:0]), "x: must hold samples"),
    "prediction of no samples": (lambda t: t.predict(X[:0]), "x: must hold samples"),
    "batches of inputs alone": (lambda t: t.fit([(X[:8],)]), "must give pairs (x, y)"),
    "batches that are none": (lambda t: t.evaluate([1, 2]), "but got int."),
    # They were cut, and each part updated the weights.
    "batches above the batch size": (
        lambda t: t.fit([(X[:20], Y[:20])]),
        "x: a batch must have at most 16 samples, but got 20.",
    ),
    "a batch above the batch size": (lambda t: t.train_on_batch(X[:20], Y[:20]), "at most 16"),
    "rows of different lengths": (
        lambda t: t.predict([[1.0, 2.0], [3.0]]),
        "x: must be arrays of numbers",
    ),
}


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(MODEL, **{"batch_size": 16, **options})


@pytest.mark.parametrize("case", DATA)
def test_data_that_cannot_be_used_is_refused(case: str) -> None:
    use, message = DATA[case]
    with trainer() as trained, pytest.raises(odt.DataError) as refused:
        use(trained)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
