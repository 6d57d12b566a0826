"""Arguments that cannot be used are refused by an error that names them."""

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

DATA_SET = odt.DataSet(X, Y)


class Samples:
    """Samples of a data set with `__getitem__`: each second one has a form of its own."""

    def __init__(self, odd: tuple[Any, ...]) -> None:
        self.items = (X[0], Y[0]), odd

    def __len__(self) -> int:
        return 8

    def __getitem__(self, k: int) -> tuple[Any, ...]:
        return self.items[k % 2]


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
    "validation batches for arrays": (
        lambda t: t.fit(X, Y, validation_data=[(X[:8], Y[:8])].__iter__()),
        "validation_data: must be (x, y), (x, y, sample_weight) or a DataSet, or batches if x is "
        "batches, but got list_iterator.",
    ),
    "no validation batches": (
        lambda t: t.fit([(X[:8], Y[:8])], validation_data=iter(())),
        "validation_data: must give batches, but it gave none.",
    ),
    "one sample without an axis of samples": (
        lambda t: t.predict(X[0]),
        "It is one sample: give its first axis to samples, as in a[np.newaxis].",
    ),
    "inputs as Python objects": (
        lambda t: t.predict(X.astype(object)),
        "x: must hold numbers, but holds Python objects. Convert it, as with a.astype('float32').",
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
    # If they were cut, each part would update the weights.
    "batches above the batch size": (
        lambda t: t.fit([(X[:20], Y[:20])]),
        "x: a batch must have at most 16 samples, but got 20.",
    ),
    "a batch above the batch size": (lambda t: t.train_on_batch(X[:20], Y[:20]), "at most 16"),
    "rows of different lengths": (
        lambda t: t.predict([[1.0, 2.0], [3.0]]),
        "x: must be arrays of numbers",
    ),
    "samples of different sizes": (
        lambda t: t.fit(Samples((X[0, :5], Y[0]))),
        "x: must give samples of one form, but got",
    ),
    "weights for some samples": (
        lambda t: t.evaluate(Samples((X[0], Y[0], 1.0))),
        "x: must give weights with all samples or with none, but got some.",
    ),
    "outputs of a teacher in rows of different lengths": (
        lambda t: trainer(teacher=odt.Teacher(outputs=[[1.0, 2.0], [3.0]])).fit(X, Y),
        "teacher_outputs: must be an array",
    ),
    "words as values of a new model": (
        lambda t: odt.new_model("mlp", like=(X, np.array(["a"] * len(X)))),
        "y: must be an array of numbers, but got <U1.",
    ),
    "a new model for fewer targets than inputs": (
        lambda t: odt.new_model("mlp", like=(X, Y[:5])),
        f"y: must hold as many samples as x, {len(X)}, but holds 5.",
    ),
    "a new model for no samples": (
        lambda t: odt.new_model("mlp", like=(X[:0], Y[:0])),
        "x: must hold samples, but holds none.",
    ),
    "weights in rows of different lengths": (
        lambda t: t.evaluate(X, Y, [[1.0, 2.0], [3.0]]),
        "sample_weight: must be arrays of numbers",
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
    "a fraction that is NaN": (
        {"sparse": {"*": np.nan}},
        "`sparse=`: must be fractions above 0 and at most 1",
    ),
    "no metric": ({"metrics": ["f2"]}, "`metrics=`: must be one of `accuracy`"),
    "no selection": ({"trainable": "fc*"}, "`trainable=`: must be last(…)"),
    "a broken number of operators": ({"trainable": odt.last(1.5)}, "`last=`: must be a whole"),  # type: ignore[arg-type]
    "a schedule of a word": ({"schedule": "cosine"}, "`schedule=`: must be a Schedule"),
    "a loss of another output": (
        {"loss": {"nope": "huber"}},
        "`loss=`: must be for one output, ",
    ),
    "losses that are all none": ({"loss": {0: None}}, "`loss=`: must give an output a loss, but"),
    "losses of no outputs": ({"output_losses": "abc"}, "`output_losses=`: must be a mapping or"),
    "a fraction alone": ({"sparse": 0.5}, "`sparse=`: must be a mapping or pairs, but got 0.5"),
    "a number as a pattern": ({"sparse": {5: 0.5}}, "`sparse=`: must be pairs of a name and a"),
    "fractions of no weights": ({"sparse": ["ab"]}, "`sparse=`: must be a mapping or pairs, but"),
    "a number for pairs": ({"sparse": 5}, "`sparse=`: must be a mapping or pairs, but got 5"),
    "a number for operators": (
        {"trainable": odt.Trainable(operators=5)},  # type: ignore[arg-type]
        "`operators=`: must be text such as 0-3,7, or a list, but got 5",
    ),
    "no hyper-parameters": ({"hyper_parameters": ["ab"]}, "must be a mapping from names, but got"),
    "a broken budget": ({"memory_budget": 1.5}, "`memory_budget=`: must be a whole number"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be_used_are_refused(case: str) -> None:
    """Without a check, some would train with a value that means nothing, such as a weight of −1."""
    options, message = OPTIONS[case]
    with pytest.raises(odt.OptionError) as refused:
        trainer(**options)
    assert message in str(refused.value)


MLP: dict[str, Any] = {"kind": "mlp", "input_shape": (4,), "outputs": 2}
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "units of a new model": (
        lambda: odt.new_model(**{**MLP, "hidden": 5}),
        "`hidden=`: must be a list of whole numbers of at least 1, but got 5",
    ),
    "a shape that is a number": (
        lambda: odt.new_model(**{**MLP, "input_shape": 4}),
        "`input_shape=`: must be a list of whole numbers of at least 1, but got 4",
    ),
    "broken outputs": (
        lambda: odt.new_model(**{**MLP, "outputs": 2.0}),
        "`outputs=`: must be a whole number of at least 1, but got 2.0",
    ),
    "no size": (
        lambda: odt.new_model(**{**MLP, "hidden": [None]}),
        "`hidden=`: must be a whole number of at least 1, but got None",
    ),
    "units of a new head": (
        lambda: odt.replace_head(MODEL, 2, hidden=3),  # type: ignore[arg-type]
        "`hidden=`: must be a list of whole numbers of at least 1, but got 3",
    ),
    "broken classes": (
        lambda: odt.replace_head(MODEL, 2.0),  # type: ignore[arg-type]
        "`classes=`: must be a whole number of at least 1, but got 2.0",
    ),
    "classes without names": (
        lambda: odt.replace_head(MODEL, [1, 2]),  # type: ignore[list-item]
        "`classes=`: must be a list of names, but got [1, 2]",
    ),
    "classes in one text": (
        lambda: odt.replace_head(MODEL, "abc"),
        "`classes=`: must be a list of names, but got 'abc'",
    ),
    "classes of new samples in one text": (
        lambda: odt.personalize(MODEL, (X, Y), classes="abcdefghij"),
        "`classes=`: must be a list of names, but got 'abcdefghij'",
    ),
    "classes of a report in one text": (
        lambda: odt.classification_report(trainer(), X, Y, classes="abcdefghij"),
        "`classes=`: must be a list of names, but got 'abcdefghij'",
    ),
    "too few classes of a report": (
        lambda: odt.classification_report(trainer(), X, Y, classes=["a", "b"]),
        "`classes=`: must name all 10 classes, but got 2 names",
    ),
    "shapes of no inputs": (
        lambda: odt.load_model(MODEL, input_shapes="abc"),  # type: ignore[arg-type]
        "`input_shapes=`: must be a mapping from names, but got str",
    ),
    "callbacks that are none": (
        lambda: trainer().fit(X, Y, callbacks="abc"),  # type: ignore[arg-type]
        "`callbacks=`: must be callbacks, but got str",
    ),
    "weights of classes by position": (
        lambda: trainer().fit(X, Y, class_weight=[1.0, 2.0]),  # type: ignore[arg-type]
        "`class_weight=`: must be balanced or a mapping from classes to weights, but got list. "
        "dict(enumerate(weights)) maps",
    ),
    "a model for a trainer": (
        lambda: odt.classification_report("model.circle", X, Y),  # type: ignore[arg-type]
        "`trainer=`: must be an `odt.Trainer`, but got 'model.circle'",
    ),
    "losses of no trainer": (
        lambda: odt.sample_losses(None, X, Y),  # type: ignore[arg-type]
        "`trainer=`: must be an `odt.Trainer`, but got None",
    ),
    "patience below 0": (
        lambda: odt.EarlyStopping(patience=-1),
        "`patience=`: must be a whole number of at least 0, but got -1",
    ),
    "a word in a schedule": (
        lambda: odt.CosineDecay(0.1, alpha="a"),  # type: ignore[arg-type]
        "`alpha=`: must be from 0 to 1, but got a",
    ),
    "nothing in a schedule": (
        lambda: odt.StepDecay(0.1, decay_rate=None),  # type: ignore[arg-type]
        "`decay_rate=`: must be from 0 up",
    ),
    "a number for a switch of a schedule": (
        lambda: odt.ExponentialDecay(0.1, staircase=0.5),  # type: ignore[arg-type]
        "`staircase=`: must be True or False, but got 0.5",
    ),
    "a word for a factor": (
        lambda: odt.ReduceLROnPlateau(factor="a"),  # type: ignore[arg-type]
        "`factor=`: must be above 0 and below 1, but got a",
    ),
    "a word for a change": (
        lambda: odt.EarlyStopping(min_delta="a"),  # type: ignore[arg-type]
        "`min_delta=`: must be a finite number, but got a",
    ),
    "a text in a strategy": (
        lambda: odt.federated.FedProx("a"),  # type: ignore[arg-type]
        "`strategy=`: `mu` must be at least 0, but got a",
    ),
    "a switch for a number": (
        lambda: odt.lora(MODEL, True),
        "`rank=`: must be a whole number from 1 to 2147483647, but got True",
    ),
    "a word for a seed": (
        lambda: odt.lora(MODEL, 2, seed="a"),  # type: ignore[arg-type]
        "`seed=`: must be a whole number of at least 0, but got a",
    ),
    "a word for an operator": (
        lambda: odt.replace_head(MODEL, 3, after="last"),  # type: ignore[arg-type]
        "`after=`: must be a whole number of at least 0, but got last",
    ),
    "no batch size in training info": (
        lambda: odt.write_circle_plus(
            MODEL,
            "none.circle",
            odt.TrainingInfo(loss="mean_squared_error", batch_size=None),  # type: ignore[arg-type]
        ),
        "`batch_size=`: must be given, but got None",
    ),
    "an operator that is not there": (
        lambda: odt.write_circle_plus(
            MODEL, "none.circle", odt.TrainingInfo(loss="mean_squared_error", trainable_ops=(99,))
        ),
        "`trainable_ops=`: must be a whole number of at most",
    ),
    "weights of losses without outputs": (
        lambda: odt.write_circle_plus(
            MODEL,
            "none.circle",
            odt.TrainingInfo(loss="mean_squared_error", loss_weights=(1.0,)),  # type: ignore[arg-type]
        ),
        "`loss_weights=`: must be pairs of a name and a number, but got (1.0,)",
    ),
    "hyper-parameters without names": (
        lambda: odt.write_circle_plus(
            MODEL,
            "none.circle",
            odt.TrainingInfo(loss="mean_squared_error", hyper_parameters=3),  # type: ignore[arg-type]
        ),
        "`hyper_parameters=`: must have a name for each number, but got 3",
    ),
    "an augmentation of nothing": (
        lambda: odt.augment.Noise(None).check((4,)),  # type: ignore[arg-type]
        "`augment=`: noise: its value must be above 0",
    ),
    "three arrays for a new model": (
        lambda: odt.new_model("mlp", like=(X, Y, Y)),  # type: ignore[arg-type]
        "`like=`: must be a path or a pair, but got tuple",
    ),
    "what training info cannot hold": (
        lambda: odt.write_circle_plus(MODEL, "none.circle", ema=0.5),
        "`ema=`: is no argument of odt.write_circle_plus",
    ),
    "samples of a client in rows of different lengths": (
        lambda: odt.federated.Client(trainer(), X, Y, samples=[[0], [1, 2]]),  # type: ignore[list-item]
        "`samples=`: must be a list of whole numbers, but got list",
    ),
    "a number for weights of checkpoints": (
        lambda: odt.federated.merge(["a.odt", "b.odt"], "c.odt", weights=5),  # type: ignore[arg-type]
        "`weights=`: must be a list of numbers, but got 5",
    ),
    "a line break between values": (
        lambda: odt.CSVLogger("log.csv", separator="\n"),
        "`separator=`: must be one character, neither a quote nor the end of a line",
    ),
    "a part of a number in a name": (
        lambda: odt.ModelCheckpoint("{epoch.part}.odt").on_epoch_end(0, {"loss": 1.0}),
        "`filepath=`: must name values of epoch, loss, but got {epoch.part}.odt",
    ),
    "an unknown form of progress": (
        lambda: trainer().evaluate([(X[:8], Y[:8])], verbose=7),
        "`verbose=`: must be auto, 0, 1 or 2, but got 7",
    ),
    "a broken pause": (
        lambda: odt.ReduceLROnPlateau(cooldown=0.5),  # type: ignore[arg-type]
        "`cooldown=`: must be a whole number of at least 0, but got 0.5",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_arguments_of_functions_are_refused(case: str) -> None:
    """Without a check, some would raise a TypeError, and others take the value for another one."""
    call, message = CALLS[case]
    with pytest.raises(odt.OptionError) as refused:
        call()
    assert message in str(refused.value)


WITHOUT_EFFECT: dict[str, tuple[Use, str]] = {
    "targets beside a DataSet": (lambda t: t.evaluate(DATA_SET, Y), "`y=`: must be left out with"),
    "training targets beside a DataSet": (lambda t: t.fit(DATA_SET, Y), "`y=`: must be left out"),
    "targets of a file beside a DataSet": (
        lambda t: odt.evaluate(MODEL, DATA_SET, Y),
        "`y=`: must be left out with a DataSet, but got both",
    ),
    "targets beside new data": (
        lambda t: odt.evaluate(MODEL, odt.NewData("photos"), Y),
        "`y=`: must be left out with NewData, but got both",
    ),
    "weights beside batches": (
        lambda t: t.evaluate([(X[:8], Y[:8])], sample_weight=np.ones(8)),
        "`sample_weight=`: must be left out with batches",
    ),
    "a seed beside batches": (
        lambda t: t.fit([(X[:8], Y[:8])], seed=0),
        "`seed=`: must be left out with an iterable of batches",
    ),
    "new data without a checkpoint": (
        lambda t: t.fit(X, Y, new_data=True),
        "`new_data=`: must come with the `checkpoint=` of the trainer, but got it alone",
    ),
    "anchors of a classifier": (
        lambda t: odt.load_model(MODEL, anchors="mediapipe:8,16,16,16"),
        "`anchors=`: must come with a detector of two outputs",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_EFFECT)
def test_arguments_without_effect_are_refused(case: str) -> None:
    use, message = WITHOUT_EFFECT[case]
    with trainer() as trained, pytest.raises(odt.OptionError) as refused:
        use(trained)
    assert message in str(refused.value)


TYPES: dict[str, tuple[Callable[[odt.Trainer], object], str]] = {
    "no path": (lambda t: t.export(None), "`path=`: must be a path, but got None"),  # type: ignore[arg-type]
    "an empty path": (lambda t: t.save_checkpoint(""), "`path=`: must be a path, but got ''"),
    "a path of bytes": (
        lambda t: odt.load_model(b"model.circle"),  # type: ignore[arg-type]
        "`path=`: must be a path, but got bytes",
    ),
    "a number for a model": (
        lambda t: odt.lora(3, 4),  # type: ignore[arg-type]
        "`model=`: must be an `odt.Model` or a path, but got 3",
    ),
    "a word for a switch": (
        lambda t: t.export("model.circle", float_weights="no"),  # type: ignore[arg-type]
        "`float_weights=`: must be True or False, but got 'no'",
    ),
    "an array for a switch": (
        lambda t: t.fit(X, Y, shuffle=np.zeros(2)),  # type: ignore[arg-type]
        "`shuffle=`: must be True or False, but got ndarray",
    ),
    "no number of epochs": (
        lambda t: t.fit(X, Y, epochs=None),  # type: ignore[arg-type]
        "`epochs=`: must be a whole number, but got None",
    ),
    "a text for a function": (
        lambda t: odt.predict(t.model, X, progress="bar"),  # type: ignore[arg-type]
        "`progress=`: must be a function, but got 'bar'",
    ),
    "numbers for folders": (
        lambda t: odt.compare_runs([1]),  # type: ignore[list-item]
        "`folders=`: must be a path or a list of paths, but got list",
    ),
    "one path for a list": (
        lambda t: odt.join(MODEL, "part.circle", "joined.circle"),
        "`parts=`: must be a list of paths, but got 'part.circle'",
    ),
    "an array for a word": (
        lambda t: odt.new_model("mlp", input_shape=(4,), outputs=2, activation=X),  # type: ignore[arg-type]
        "`activation=`: must be a text, but got ndarray",
    ),
    "an object for a text": (
        lambda t: odt.EarlyStopping(object()),  # type: ignore[arg-type]
        "`monitor=`: must be a text, but got object",
    ),
}


@pytest.mark.parametrize("case", TYPES)
def test_arguments_of_another_type_are_refused(case: str) -> None:
    """Without a check, the code that uses them would raise an AttributeError or a TypeError."""
    use, message = TYPES[case]
    with trainer() as trained, pytest.raises(odt.OptionError) as refused:
        use(trained)
    assert str(refused.value) == message


def test_numbers_of_numpy_are_numbers() -> None:
    """Also in arithmetic: −16 as uint8 would be 240."""
    python = {
        "batch_size": 16,
        "micro_batch": 8,
        "workers": 1,
        "warmup": 1,
        "learning_rate": 0.001953125,
    }
    losses = []
    forms: list[Callable[[Any], Any]] = [lambda value: value, np.uint8, np.array]
    for of in forms:
        numbers = {n: of(v) for n, v in python.items() if n != "learning_rate"}
        with trainer(**numbers, learning_rate=np.float32(0.001953125)) as trained:
            history = trained.fit(X, Y, epochs=of(2), seed=of(3), shuffle=of(True))
            losses.append(history.history["loss"])
    assert losses[0] == losses[1] == losses[2]


def test_what_fit_cannot_store_is_refused(tmp_path: Path) -> None:
    with trainer() as trained:
        with pytest.raises(odt.OptionError, match=r"`properties=`: must be a mapping .* got str"):
            trained.fit(X, Y, properties="a")  # type: ignore[arg-type]
        with pytest.raises(odt.OdtError, match=r"log.csv: must be a file .* Make its folder first"):
            trained.fit(X, Y, callbacks=odt.CSVLogger(tmp_path / "none" / "log.csv"))


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
