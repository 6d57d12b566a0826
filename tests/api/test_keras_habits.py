"""What users of Keras write out of habit works, or the message says what to write."""

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import MLP_SM

import odt
from odt import habit_tables as tables

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(32, 784)).astype(np.float32)
LABELS = RNG.integers(0, 10, 32)
Y = np.eye(10, dtype=np.float32)[LABELS]
KERAS: Any = odt  # with arguments that it does not have


def test_acc_is_the_accuracy_that_fits() -> None:
    with odt.Trainer(MODEL, metrics=["acc"], keep_best=True, monitor="val_acc") as trainer:
        history = trainer.fit(X, Y, epochs=1, validation_split=0.5).history
    assert history.keys() >= {"acc", "val_acc"}


def test_a_name_of_an_optimizer_may_have_capitals() -> None:
    with odt.Trainer(MODEL, optimizer="Adam") as trainer:
        assert trainer.session.recipe.info.optimizer == "adam"


def test_one_callback_needs_no_list() -> None:
    ends: list[int] = []
    callback = odt.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(epoch))
    with odt.Trainer(MODEL) as trainer:
        trainer.fit(X, Y, epochs=2, callbacks=callback)
    assert ends == [0, 1]


def test_labels_for_one_hot_rows_name_the_loss_for_them() -> None:
    remedy = "Integer labels are for the loss `sparse_categorical_crossentropy`"
    with odt.Trainer(MODEL) as trainer, pytest.raises(odt.DataError, match=remedy):
        trainer.fit(X, LABELS)


def test_the_name_of_one_tensor_cuts_a_model(tmp_path: Path) -> None:
    hidden = odt.load_model(MODEL)._file.graph.nodes[0].outputs[0]
    part = odt.cut(MODEL, after=hidden)
    assert [tensor.shape for tensor in part.inputs] == [(1, 128)]
    with pytest.raises(
        odt.OptionError, match=r"`after=`: .* but got no. `Model.summary\(\)` lists"
    ):
        odt.cut(MODEL, after="no")


def test_the_loss_of_each_output_may_be_a_mapping_or_a_list() -> None:
    for loss in ("mse", ["mse"], {"0": "mse"}, [odt.MeanSquaredError()]):
        with odt.Trainer(MODEL, loss=loss) as trainer:
            assert [loss.name for loss in trainer.session.recipe.losses] == ["mean_squared_error"]
    for loss, words in (
        (["mse", "mse"], "must have a loss for each of the 1 outputs, or None for none, but got 2"),
        ({"scores": "mse"}, "must be for one output, .* or its number, but got scores"),
    ):
        with pytest.raises(odt.OptionError, match=words):
            odt.Trainer(MODEL, loss=loss)


def test_class_numbers_may_be_whole_floats() -> None:
    with odt.Trainer(MODEL, loss="sparse_categorical_crossentropy") as trainer:
        same = trainer.evaluate(X, LABELS)
        assert trainer.evaluate(X, LABELS.astype(np.float64)) == same
        assert trainer.evaluate(X, LABELS.astype(np.float32)[:, None]) == same
        with pytest.raises(odt.DataError, match=r"y: sample 31: values must be whole numbers"):
            trainer.fit(X, np.append(LABELS[:31], 2.5))


@pytest.mark.parametrize("y", [["a", "b"] * 16, np.array([b"a"] * 32), np.array(["a", None] * 16)])
def test_names_of_classes_are_to_be_numbered(y: Any) -> None:
    words = "y: must hold numbers, but holds (texts|Python objects). Number the classes: names, y ="
    with odt.Trainer(MODEL) as trainer, pytest.raises(odt.DataError, match=words):
        trainer.fit(X, y)


def test_a_split_without_validation_samples_says_so() -> None:
    words = "`validation_split=0.2`: no sample is left for validation: all 1 train"
    with odt.Trainer(MODEL) as trainer, pytest.warns(odt.OdtWarning, match=words):
        trainer.fit(X[:1], Y[:1], validation_split=0.2)


def test_warnings_point_to_the_line_of_the_user() -> None:
    with odt.Trainer(MODEL) as trainer, pytest.warns(odt.OdtWarning) as seen:
        trainer.fit(X[:1], Y[:1], validation_split=0.2)
    assert {warning.filename for warning in seen} == {__file__}


HABITS = [
    ("fit", {"batch_size": 8}, "Pass it to odt.Trainer"),
    ("fit", {"steps_per_epoch": 3}, "`max_steps=`"),
    ("fit", {"epoch": 3}, "Did you mean epochs"),
    ("fit", {"class_weights": {}}, "Did you mean class_weight"),
    ("evaluate", {"batch_size": 8}, "Pass it to odt.Trainer"),
    ("predict", {"steps": 1}, "pass fewer"),
]


@pytest.mark.parametrize(("method", "options", "words"), HABITS)
def test_unknown_arguments_name_what_odt_has(
    method: str, options: dict[str, Any], words: str
) -> None:
    data = (X,) if method == "predict" else (X, Y)
    rule = f"`{next(iter(options))}=`: is no argument of Trainer.{method}. .*{words}"
    with odt.Trainer(MODEL) as trainer, pytest.raises(odt.OptionError, match=rule):
        getattr(trainer, method)(*data, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 0.1}, "Pass `learning_rate=` to odt.Trainer"),
        ({"epochs": 3}, "Pass it to Trainer.fit"),
        ({"callbacks": []}, "Pass it to Trainer.fit"),
        ({"metric": "acc"}, "Did you mean metrics"),
        ({"device": "cuda"}, "odt computes on the processor"),
    ],
)
def test_unknown_arguments_of_a_trainer_do_too(options: dict[str, Any], words: str) -> None:
    with pytest.raises(odt.OptionError, match=f"is no argument of odt.Trainer. {words}"):
        odt.Trainer(MODEL, **options)


def test_missing_attributes_name_what_odt_has() -> None:
    model: Any = odt.load_model(MODEL)
    with odt.Trainer(MODEL) as trainer:
        named: Any = trainer
        for name, words in (("optimizer", "`learning_rate`"), ("get_weights", "`weights`")):
            with pytest.raises(AttributeError, match=f"odt.Trainer has no attribute .* {words}"):
                getattr(named, name)
        assert not hasattr(named, "anything")
    with pytest.raises(AttributeError, match=r"odt.Model has no attribute 'fit'. odt.Trainer\(mod"):
        model.fit(X, Y)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_trainers_and_models_are_not_copied(copied: Callable[[Any], Any]) -> None:
    with odt.Trainer(MODEL) as trainer:
        with pytest.raises(odt.OdtError, match="must be neither pickled nor copied"):
            copied(trainer)
        with pytest.raises(odt.OdtError, match="must be neither pickled nor copied"):
            copied(trainer.model)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KERAS.Adam(lr=0.1), "`lr=`: is no argument of odt.Adam. Write `learning_rate=`"),
        (lambda: KERAS.Adam(learning_rat=0.1), "odt.Adam. Did you mean learning_rate"),
        (lambda: KERAS.SGD(params=[], lr=1), "`lr=`: is no argument of odt.SGD"),
        (lambda: KERAS.Huber(dleta=2.0), "odt.Huber. Did you mean delta"),
        (lambda: KERAS.MeanSquaredError(reduction="sum"), "Pass `reduction=` to odt.Trainer"),
        (lambda: KERAS.MeanSquaredError(other=1), "odt.MeanSquaredError. It has none"),
        (lambda: KERAS.EarlyStopping(verbose=1), "odt.EarlyStopping. Leave it out"),
        (lambda: KERAS.CSVLogger("log.csv", seperator=";"), "Did you mean separator"),
        (lambda: KERAS.load_model(MODEL, compile=False), "odt.load_model. Leave it out"),
        (lambda: KERAS.predict(MODEL, X, verbose=0), "odt.predict. Leave it out"),
        (lambda: KERAS.evaluate(MODEL, X, Y, verbose=0), "odt.evaluate. Leave it out"),
        (lambda: KERAS.evaluate(MODEL, X, Y, metric="acc"), "Did you mean metrics"),
        (lambda: KERAS.new_model("mlp", output=3), "odt.new_model. Did you mean outputs"),
        *(
            (partial(getattr(KERAS, name), verbose=1), f"odt.{name}. Leave it out")
            for name in (
                *("classification_report", "compare_outputs", "cut", "lora", "new_model"),
                *("personalize", "quantize", "replace_head", "report"),
            )
        ),
    ],
)
def test_unknown_arguments_of_other_names_do_too(call: Any, words: str) -> None:
    with pytest.raises(odt.OptionError, match=words):
        call()


def test_optimizers_and_losses_are_modules_as_in_keras() -> None:
    package: Any = odt
    assert package.optimizers.Adam is odt.Adam
    assert package.losses.Huber is odt.Huber


def test_a_model_is_no_function() -> None:
    model: Any = odt.load_model(MODEL)
    with pytest.raises(TypeError, match=r"odt.predict\(model, x\) computes outputs"):
        model(X)
    with pytest.raises(TypeError, match=r"a mapping, not a function. odt.Trainer\(model\) trains"):
        model.parameters()


def test_a_name_that_is_almost_right_has_a_suggestion() -> None:
    for owner, name, words in (
        (odt, "Trainr", "Did you mean Trainer"),
        (odt.load_model(MODEL), "sumary", "odt.Model has no attribute 'sumary'. Did you mean summ"),
        (odt.Adam(), "learningrate", "odt.Adam has no .* Did you mean learning_rate"),
    ):
        with pytest.raises(AttributeError, match=words):
            getattr(owner, name)
    with pytest.raises(AttributeError, match=r"has no attribute '_repr_png_'$"):
        getattr(odt.load_model(MODEL), "_repr_png_")  # noqa: B009 - it is not there


class Mine(odt.Callback):
    """A callback as Keras' users write it."""


OWNERS: dict[str, Callable[[], Any]] = {
    "": lambda: odt,
    "Model": lambda: odt.load_model(MODEL),
    "Trainer": lambda: odt.Trainer(MODEL),
    "Optimizer": odt.Adam,
    "Callback": Mine,
    "QuantizedModel": lambda: odt.quantize(MODEL, scheme="int8-weights"),
}


@pytest.mark.parametrize("table", tables.ATTRIBUTES)
def test_every_name_of_a_table_is_answered(table: str) -> None:
    owner = OWNERS[table]()
    for name, hint in tables.ATTRIBUTES[table].items():
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(owner, name)


def hints() -> Iterator[str]:
    yield from tables.ARGUMENTS.values()
    for table in (*tables.CLASS_ARGUMENTS.values(), *tables.ATTRIBUTES.values()):
        yield from table.values()


@pytest.mark.parametrize("hint", sorted({*hints()}))
def test_what_a_hint_names_is_there(hint: str) -> None:
    """odt.Name, Trainer.method, `argument=` and `attribute` exist where the hint says so."""
    arguments = {
        name
        for function in (odt.Trainer, odt.Trainer.fit, odt.new_model, odt.Adam, odt.RMSprop)
        for name in signature(function).parameters
    } | {*signature(odt.EarlyStopping).parameters}
    for path in re.findall(r"\bodt((?:\.[A-Za-z]\w*)+)", hint):
        value: Any = odt
        for name in path.strip(".").split("."):
            value = getattr(value, name)
    for name in re.findall(r"(?<!odt\.)\bTrainer\.(\w+)", hint):
        assert hasattr(odt.Trainer, name)
    for name in re.findall(r"`(\w+)=", hint):
        assert name in arguments, name
    owners = (odt.Trainer, odt.load_model(MODEL), odt.History, odt.Adam(), odt.QuantizedModel)
    for name in re.findall(r"`(\w+)(?:\([^`]*\))?`", hint):
        assert any(hasattr(owner, name) for owner in owners) or name == "trainer", name
