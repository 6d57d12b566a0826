"""The JSON of circle_plus_gen: all that it takes, and one line for what it cannot mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from odt.core.formats.flatbuffer.training_info_buffer import (
    decode_training_info,
    encode_training_info,
)
from odt.core.model.training_info import TrainingInfo
from odt.core.model.training_json import (
    format_training_json,
    parse_training_json,
    read_training_json,
)
from odt.errors import OdtError

# The example of circle_plus_gen's README.
README = """{
  "optimizer": {"type": "adam",
    "args": {"learningRate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-07}},
  "loss": {"type": "categorical crossentropy",
    "args": {"fromLogits": true, "reduction": "sum over batch size"}},
  "batchSize": 32, "fineTuning": 0}"""


def recipe(**changes: Any) -> dict[str, Any]:
    base = {
        "optimizer": {"type": "sgd", "args": {"learningRate": 0.5}},
        "loss": {"type": "mse", "args": {"reduction": "sum"}},
        "batchSize": 4,
    }
    return {**base, **changes}


def parse(content: Any, operators: int = 5) -> TrainingInfo:
    return parse_training_json(json.dumps(content), "r.json", operators)


def test_the_readme_of_circle_plus_gen() -> None:
    assert parse_training_json(README, "r.json", 5) == TrainingInfo(
        optimizer="adam",
        learning_rate=0.01,
        hyper_parameters={"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
        loss="categorical_crossentropy",
        from_logits=True,
        reduction="sum_over_batch_size",
        batch_size=32,
        trainable_ops=None,
    )


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("sparse categorical crossentropy", "sparse_categorical_crossentropy"),
        ("sparsecategoricalcrossentropy", "sparse_categorical_crossentropy"),
        ("SparseCCE", "sparse_categorical_crossentropy"),
        ("categorical crossentropy", "categorical_crossentropy"),
        ("CategoricalCrossentropy", "categorical_crossentropy"),
        ("cce", "categorical_crossentropy"),
        ("Mean Squared Error", "mean_squared_error"),
        ("MSE", "mean_squared_error"),
        ("mean-squared-error", "mean_squared_error"),
    ],
)
def test_spellings_of_losses(word: str, name: str) -> None:
    assert parse(recipe(loss={"type": word, "args": {"reduction": "sum"}})).loss == name


@pytest.mark.parametrize("word", ["SGD", "stocasticgradientdescent", "stochastic gradient descent"])
def test_spellings_of_sgd(word: str) -> None:
    assert parse(recipe(optimizer={"type": word, "args": {}})).optimizer == "sgd"


@pytest.mark.parametrize("key", ["learningRate", "learning_rate"])
def test_camel_and_snake_case(key: str) -> None:
    args = {key: 0.25, "beta_1": 0.5, "beta2": 0.75}
    info = parse(recipe(optimizer={"type": "adam", "args": args}))
    assert info.learning_rate == 0.25
    assert info.hyper_parameters == {"beta_1": 0.5, "beta_2": 0.75}


@pytest.mark.parametrize(
    "loss",
    [
        {"type": "mse", "args": {"reduction": "SUM"}},
        {"type": "mse", "args": {}, "reduction": "sum"},
        {"type": "mse", "args": {"reduction": "sum"}, "reduction": "Sum"},
    ],
)
def test_reduction_counts_in_either_place(loss: dict[str, Any]) -> None:
    assert parse(recipe(loss=loss)).reduction == "sum"


@pytest.mark.parametrize(
    ("last", "trainable"),
    [(0, None), (-1, ()), (1, (4,)), (2, (3, 4)), (5, (0, 1, 2, 3, 4))],
)
def test_fine_tuning_is_all_none_or_the_last(last: int, trainable: tuple[int, ...] | None) -> None:
    assert parse(recipe(fineTuning=last)).trainable_ops == trainable


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"finTuning": 3}, 'but got "finTuning". Did you mean fineTuning?'),
        ({"fineFuning": 3, "fineTuning": 3}, 'but got "fineFuning". Did you mean fineTuning?'),
        ({"optimizer": {"args": {}}}, "optimizer: must have type, but got args"),
        ({"optimizer": {"type": "adm"}}, "must be one of sgd, .*, adam, .* Did you mean adam?"),
        ({"optimizer": {"type": "sgd", "args": {"beta1": 0.9}}}, "only learningRate, but got"),
        ({"optimizer": {"type": "sgd", "args": {"learninRate": 1}}}, "Did you mean learningRate?"),
        ({"optimizer": {"type": "sgd", "args": {"learningRate": "1"}}}, "be a number, but got"),
        (
            {"optimizer": {"type": "sgd", "args": {"learningRate": 0}}},
            "above 0 and below 3.4e.38, but",
        ),
        (
            {"optimizer": {"type": "sgd", "args": {"learningRate": 1e39}}},
            "below 3.4e.38, but got 1e",
        ),
        ({"optimizer": {"type": "adam", "args": {"beta1": 1}}}, "at least 0 and below 1"),
        ({"optimizer": {"type": "adam", "args": {"epsilon": float("nan")}}}, "but got NaN"),
        ({"optimizer": {"type": "sgd", "args": {"learningRate": 10**400}}}, "but got 1000"),
        ({"optimizer": []}, r"optimizer: must be an object, but got \[\]"),
        ({"loss": {"type": "hinge", "args": {}}}, "must be one of sparse categorical"),
        ({"loss": {"type": "mse", "args": {"fromLogits": True}}}, "only reduction, but got"),
        ({"loss": {"type": "cce", "args": {"fromLogits": 1}}}, "true or false, but got 1"),
        ({"loss": {"type": "mse", "args": {"reduction": "mean"}}}, "must be one of sum over"),
        (
            {
                "loss": {
                    "type": "mse",
                    "args": {"reduction": "sum"},
                    "reduction": "sumoverbatchsize",
                }
            },
            "loss.reduction: must be as in args",
        ),
        ({"batchSize": 0}, "batchSize: must be a whole number from 1"),
        ({"batchSize": True}, "batchSize: must be a whole number from 1"),
        ({"batchSize": 1.5}, "batchSize: must be a whole number from 1"),
        ({"batch_size": 4}, 'but got "batch_size" twice'),
        ({"fineTuning": 6}, "fineTuning: must be a whole number from -1 to 5, but got 6"),
        ({"fineTuning": -2}, "fineTuning: must be a whole number from -1 to 5, but got -2"),
        ({"trainableOps": [5]}, "trainableOps: must be a whole number from 0 to 4, but got 5"),
        ({"trainableOps": [1], "fineTuning": 1}, "trainableOps: must be a list, without"),
    ],
)
def test_impossible_options_are_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(OdtError, match=words) as e:
        parse(recipe(**changes))
    assert str(e.value).startswith("r.json: ")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"optimizer": {}}', "[" * 100000])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(OdtError, match=r"^r\.json: ") as e:
        parse_training_json(text, "r.json", 5)
    assert len(str(e.value)) < 300


def test_a_key_must_be_there_once() -> None:
    text = json.dumps(recipe())[:-1] + ', "batchSize": 2}'
    with pytest.raises(OdtError, match='must be JSON, but got: the name "batchSize" twice'):
        parse_training_json(text, "r.json", 5)


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"\xe9": 1}')
    for name in ("latin.json", "missing.json", "."):
        with pytest.raises(OdtError, match=r"must be a JSON file, but (got: |was not found)"):
            read_training_json(tmp_path / name, 5)


@pytest.mark.parametrize("trainable", [None, (), (3, 4), (0, 2)])
def test_printed_training_info_can_be_read(trainable: tuple[int, ...] | None) -> None:
    info = TrainingInfo(
        loss="categorical_crossentropy",
        from_logits=True,
        hyper_parameters={"beta_1": 0.5},
        trainable_ops=trainable,
    )
    stored = decode_training_info(encode_training_info(info, 5), "x", 5)
    assert parse_training_json(format_training_json(stored, 5), "r.json", 5) == info


def test_it_is_printed_as_circle_plus_gen_prints_it() -> None:
    info = TrainingInfo(loss="mean_squared_error", optimizer="sgd", learning_rate=0.5)
    stored = decode_training_info(encode_training_info(info, 2), "x", 2)
    assert json.loads(format_training_json(stored, 2)) == {
        "optimizer": {"type": "sgd", "args": {"learningRate": 0.5}},
        "loss": {"type": "mean squared error", "args": {"reduction": "sum over batch size"}},
        "batchSize": 32,
        "fineTuning": 0,
    }
