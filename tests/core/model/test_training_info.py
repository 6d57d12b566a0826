"""Training info: what onert wrote is read, what odt writes says the same."""

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import flatbuffers
import pytest
from support.paths import ROOT

from odt.core.formats.flatbuffer.training_info_buffer import (
    decode_training_info,
    encode_training_info,
)
from odt.core.model.training_info import StoredInfo, TrainingInfo
from odt.errors import ModelError, OdtError, OptionError
from odt.schemas import circle_traininfo as schema

SCHEMA = ROOT / "schemas" / "circle_traininfo.fbs"
# Written by onert 1.30.0: SGD 0.1, mean squared error, batch 1, operator 0 of 1 trains.
FROM_ONERT = bytes.fromhex(
    "240000004354523000001a0018000000000005000800060007000c0000001000000014001a0000000001020328000000"
    "18000000010000000400000001000000000000000400060004000000000006000800040006000000cdcccc3d"
)


def table(fields: dict[int, tuple[str, Any]]) -> bytes:
    """A CTR0 flatbuffer of one table: slot → (kind of field, value)."""
    builder = flatbuffers.Builder(64)
    builder.StartObject(11)
    for slot, (kind, value) in fields.items():
        getattr(builder, f"Prepend{kind}Slot")(slot, value, None)
    builder.Finish(builder.EndObject(), file_identifier=b"CTR0")
    return bytes(builder.Output())


def read(data: bytes, operators: int = 1) -> StoredInfo:
    return decode_training_info(data, "m.circle: metadata CIRCLE_TRAINING", operators)


def test_the_numbers_are_those_of_the_schema() -> None:
    text = re.sub(r"//.*", "", SCHEMA.read_text())
    unions = set(re.findall(r"union (\w+)", text))
    tables = re.findall(r"table (\w+) {(.*?)}", text, re.DOTALL)
    assert {name for name, _ in tables} == schema.SLOTS.keys()
    for name, body in tables:
        slots: list[str] = []
        for field, kind in re.findall(r"(\w+): \[?(\w+)", body):
            slots += [f"{field}_type", field] if kind in unions else [field]
        assert schema.SLOTS[name] == tuple(slots)
    for name, values in (
        ("Optimizer", schema.OPTIMIZERS),
        ("LossFn", schema.LOSSES),
        ("LossReductionType", schema.REDUCTIONS),
    ):
        body = re.findall(rf"enum {name} : byte {{(.*?)}}", text, re.DOTALL)[0]
        assert re.findall(r"(\w+) = (\d)", body) == [(v, str(i)) for i, v in enumerate(values)]
    for name, kinds in (
        ("OptimizerOptions", schema.OPTIMIZER_OPTIONS),
        ("LossFnOptions", schema.LOSS_OPTIONS),
    ):
        body = re.findall(rf"union {name} {{(.*?)}}", text, re.DOTALL)[0]
        assert ("NONE", *re.findall(r"\w+", body)) == kinds


def test_files_of_onert_can_be_read() -> None:
    assert read(FROM_ONERT) == StoredInfo(
        optimizer="sgd",
        hyper_parameters={},
        learning_rate=0.1,
        loss="mean_squared_error",
        reduction="sum_over_batch_size",
        from_logits=None,
        batch_size=1,
        trainable_ops=(0,),
    )


@pytest.mark.parametrize(
    "info",
    [
        TrainingInfo(loss="mean_squared_error", optimizer="sgd", reduction="sum", batch_size=7),
        TrainingInfo(loss="sparse_categorical_crossentropy", from_logits=False),
        TrainingInfo(
            loss="categorical_crossentropy",
            from_logits=True,
            learning_rate=0.01,
            hyper_parameters={"beta_1": 0.8, "beta_2": 0.99, "epsilon": 0.0},
            trainable_ops=(2, 0),
        ),
        TrainingInfo(loss="mean_squared_error", trainable_ops=()),
    ],
)
def test_written_files_can_be_read(info: TrainingInfo) -> None:
    stored = read(encode_training_info(info, 3), 3)
    ops = (0, 1, 2) if info.trainable_ops is None else tuple(sorted(info.trainable_ops))
    assert TrainingInfo(**stored.as_dict()) == replace(info, trainable_ops=ops)


def test_an_empty_table_has_the_defaults_of_the_schema() -> None:
    assert read(table({})).as_dict() == {
        "optimizer": "sgd",
        "hyper_parameters": {},
        "loss": "sparse_categorical_crossentropy",
        "reduction": "sum_over_batch_size",
        "trainable_ops": (),
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({1: ("Int8", 2)}, "optimizer must be below 2, but got 2"),
        ({4: ("Int8", -1)}, "lossfn must be below 3, but got -1"),
        ({9: ("Int8", 2)}, "loss_reduction_type must be below 2, but got 2"),
        ({8: ("Int32", -5)}, "batch_size must be 1 or more, but got -5"),
        ({2: ("Uint8", 2)}, "optimizer_opt must be SGDOptions, but got AdamOptions"),
        ({5: ("Uint8", 9)}, "lossfn_opt must be Sparse.*, but got type 9"),
        ({10: ("Uint32", 99)}, "field 10 must point forward"),
        ({2: ("Uint8", 1), 3: ("Uint32", 4)}, "vtable must"),
    ],
)
def test_a_wrong_field_is_one_line(fields: dict[int, tuple[str, Any]], words: str) -> None:
    with pytest.raises(ModelError, match=words) as e:
        read(table(fields))
    assert str(e.value).startswith("m.circle: metadata CIRCLE_TRAINING: ")
    assert "\n" not in str(e.value)


def test_operators_beyond_the_model_are_refused() -> None:
    data = encode_training_info(TrainingInfo(loss="mean_squared_error"), 3)
    with pytest.raises(ModelError, match="positions of the model's 2 operators, but got 2"):
        read(data, 2)


@pytest.mark.parametrize("data", [b"", b"CTR0", FROM_ONERT[:50], FROM_ONERT.replace(b"R0", b"R1")])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"^m\.circle: metadata CIRCLE_TRAINING: "):
        read(data)


def test_every_truncation_and_every_changed_byte_gives_info_or_one_error() -> None:
    for at in range(len(FROM_ONERT)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(FROM_ONERT)
            changed[at] = value
            for data in (bytes(changed), FROM_ONERT[:at]):
                with suppress(ModelError):
                    read(data)


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (TrainingInfo(), "`loss=`: must be given .*, but got none"),
        (
            TrainingInfo(loss="mean_squared_error", optimizer="adamw"),
            "sgd or adam .*, but got adamw",
        ),
        (
            TrainingInfo(
                loss="mean_squared_error", optimizer="sgd", hyper_parameters={"momentum": 0.9}
            ),
            "`momentum=`: must be left out .* stores only `learning_rate=` of sgd",
        ),
    ],
)
def test_training_info_beyond_circle_plus_is_refused(info: TrainingInfo, words: str) -> None:
    with pytest.raises(OptionError, match=words) as e:
        encode_training_info(info, 1)
    assert isinstance(e.value, OdtError)
