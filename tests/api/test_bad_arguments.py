"""Arguments that no training can use are refused: one error, never numbers made of nothing."""

from collections.abc import Callable
from pathlib import Path
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
    "validation data of four": (
        lambda t: t.fit(X, Y, validation_data=(X, Y, Y[:, 0], Y)),
        "validation_data: must be (x, y), (x, y, sample_weight) or a DataSet, but got 4 values.",
    ),
    "validation of no samples": (
        lambda t: t.fit(X, Y, validation_data=(X[:0], Y[:0])),
        "x: must hold samples, but holds none.",
    ),
    "training on no samples": (lambda t: t.fit(X[:0], Y[:0]), "x: must hold samples"),
    "evaluation of no samples": (lambda t: t.evaluate(X[:0], Y[:0]), "x: must hold samples"),
    "prediction of no samples": (lambda t: t.predict(X[:0]), "x: must hold samples"),
    "batches of inputs alone": (lambda t: t.fit([(X[:8],)]), "must give inputs and targets (x, y)"),
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


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no optimizer": ({"optimizer": "lion2"}, "`optimizer=`: must be one of `sgd`"),
    "a class": ({"optimizer": odt.SGD}, "`optimizer=`: must be one of `sgd`"),
    "no reduction": ({"reduction": "mean"}, "`reduction=`: must be one of `sum_over_batch_size`"),
    "a word for a number": ({"learning_rate": "a"}, "`learning_rate=`: must be a number above 0"),
    "half a sample": ({"batch_size": 1.5}, "`batch_size=`: must be a whole number of at least 1"),
    "too large a batch": (
        {"batch_size": 2**31},
        "`batch_size=`: must be a whole number of at most 2147483647",
    ),
    "a micro-batch of words": ({"micro_batch": "a"}, "`micro_batch=`: must be a whole number"),
    "half a worker": ({"workers": 0.5}, "`workers=`: must be a whole number of at least 1"),
    "a weight below 0": ({"loss_weights": {"0": -1}}, "`loss_weights=`: must be numbers of at"),
    "a weight that is NaN": ({"loss_weights": {"0": np.nan}}, "but got 0=nan"),
    "a decay above 1": ({"hyper_parameters": {"beta_1": 5}}, "`beta_1=`: must be a number, 0 or"),
    "an epsilon that is NaN": ({"optimizer": odt.Adam(epsilon=np.nan)}, "`epsilon=`: must be"),
    "momentum of a word": ({"optimizer": odt.SGD(momentum="a")}, "`momentum=`: must be a number"),  # type: ignore[arg-type]
    "more than all channels": ({"sparse": {"*": 2}}, "`sparse=`: must be fractions above 0 and"),
    "no channels": (
        {"sparse": {"*": np.nan}},
        "`sparse=`: must be fractions above 0 and at most 1",
    ),
    "no metric": ({"metrics": ["f2"]}, "`metrics=`: must be one of `accuracy`"),
    "no selection": ({"trainable": "fc*"}, "`trainable=`: must be last(…)"),
    "a broken number of operators": ({"trainable": odt.last(1.5)}, "`last=`: must be a whole"),  # type: ignore[arg-type]
    "a schedule of a word": ({"schedule": "cosine"}, "`schedule=`: must be a Schedule"),
    "a broken budget": ({"memory_budget": 1.5}, "`memory_budget=`: must be a whole number"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be_used_are_refused(case: str) -> None:
    """Some trained with a value that means nothing, such as a negative weight of the loss."""
    options, message = OPTIONS[case]
    with pytest.raises(odt.OptionError) as refused:
        trainer(**options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("epochs", 1.5),
        ("data_length", 0),
        ("data_length", -1),
        ("seed", -1),
        ("patience", 0),
        ("save_every", "step"),
    ],
)
def test_numbers_of_fit_are_whole(name: str, value: object) -> None:
    with trainer() as trained, pytest.raises(odt.OptionError, match=f"`{name}=`: must be a whole"):
        trained.fit(X, Y, **{name: value})  # type: ignore[arg-type]


def test_formats_and_classes_are_checked(tmp_path: Path) -> None:
    with trainer() as trained, pytest.raises(odt.OptionError, match="`file_format=`: must be one"):
        trained.export(tmp_path / "m.onnx", "onnx")
    with pytest.raises(odt.OptionError, match="`classes=`: must be a whole number of at least 2"):
        odt.replace_head(MODEL, classes=1)
