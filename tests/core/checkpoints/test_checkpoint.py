"""odt's own checkpoints: what goes in comes out, and what is wrong is told."""

import json
import zlib
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support.networks import ArrayData, InOrder, Net

from odt.core.checkpoints.checkpoint import (
    CRC,
    FRONT,
    Checkpoint,
    capture,
    decode,
    encode,
    nominal,
    restore,
)
from odt.core.checkpoints.progress import Progress
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.errors import ModelError, OptionError

PROGRESS = Progress(
    epoch=3, position=7, shuffle=True, seed=5, samples=8, batch=2, loss="mean_squared_error",
    trainable_ops=(0, 1),
)  # fmt: skip
PROPERTIES: dict[str, str | int | float] = {"device": "kitchen µ", "round": 4, "share": 0.1}


def network(units: int) -> Graph:
    net = Net()
    hidden = net.dense(net.input(1, 30), units)
    return net.graph(net.dense(hidden, 3))


def trainer(optimizer: str = "adam", units: int = 40, **hyper: Any) -> Trainer:
    info = TrainingInfo(
        optimizer=optimizer, hyper_parameters=hyper, loss="mean_squared_error", batch_size=2
    )
    return Trainer(network(units), info)


def train(t: Trainer) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(8, n)).astype(np.float32) for n in (30, 3))
    list(t.train(ArrayData([x], [y]), InOrder(8), epochs=1))


def taken(t: Trainer) -> Checkpoint:
    return capture(t.graph, t.parameters, PROGRESS, PROPERTIES)


def written(c: Checkpoint) -> bytes:
    return b"".join(encode(c))


@pytest.fixture(scope="module")
def data() -> bytes:
    with trainer() as t:
        train(t)
        return written(taken(t))


def test_all_comes_back_as_it_was() -> None:
    with trainer() as t, trainer() as other:
        train(t)
        found = decode(written(taken(t)), "c")
        assert found.optimizer == "adam"
        assert found.hyper_parameters == {
            "learning_rate": 0.001,
            "beta_1": 0.9,
            "beta_2": 0.999,
            "epsilon": 1e-7,
            "weight_decay": 0.0,
        }
        assert found.properties == PROPERTIES
        assert [type(v) for v in found.properties.values()] == [str, int, float]
        assert found.progress.step == t.parameters.step == 4
        for f in fields(Progress):
            if f.name != "step":
                assert getattr(found.progress, f.name) == getattr(PROGRESS, f.name)
        restore(found, "c", other.graph, other.parameters)
        assert other.parameters.step == 4
        for i, a in t.parameters.tensors.items():
            assert other.parameters.tensors[i].tobytes() == a.tobytes()
            for slot in ("m", "v"):
                assert np.any(t.parameters.slots[slot][i])
                theirs = other.parameters.slots[slot][i]
                assert theirs.tobytes() == t.parameters.slots[slot][i].tobytes()


def test_arrays_begin_at_multiples_of_64_in_little_endian(data: bytes) -> None:
    """The layout as documented, read without the code that writes it."""
    assert data[:8] == b"odt ckpt"
    version, length = np.frombuffer(data, "<u4", 2, 8)
    head = json.loads(data[16 : 16 + length])
    assert version == 1
    assert (16 + length) % 64 == 0
    assert head["entries"][0] == {
        "tensor": "x4", "role": "weight", "shape": [3, 40], "dtype": "float32"
    }  # fmt: skip
    first = np.frombuffer(data, "<f4", 120, 16 + length)
    with trainer() as t:
        train(t)
        np.testing.assert_array_equal(first, t.parameters.tensors[4].ravel())
    assert int.from_bytes(data[-4:], "little") == zlib.crc32(data[:-4])


def test_a_nominal_checkpoint_has_names_and_shapes_alone(data: bytes) -> None:
    whole = decode(data, "c")
    names = decode(written(nominal(whole)), "c")
    assert names.is_nominal
    assert not whole.is_nominal
    assert names.entries == whole.entries
    assert names.progress == whole.progress
    assert len(written(names)) < 2500 < len(data)
    with trainer() as t, pytest.raises(ModelError, match="nominal"):
        restore(names, "c", t.graph, t.parameters)


def test_every_truncation_is_refused(data: bytes) -> None:
    assert len(data) > 3 * 4096
    for size in (*range(200), *range(4096, len(data), 4096), len(data) - 1):
        with pytest.raises(ModelError) as e:
            decode(data[:size], "c")
        assert "\n" not in str(e.value)


def test_every_byte_is_guarded(data: bytes) -> None:
    rng = np.random.default_rng(0)
    for at in (*range(FRONT.size + 60), *rng.integers(0, len(data), 200)):
        broken = bytearray(data)
        broken[at] ^= 0x40
        with pytest.raises(ModelError):
            decode(bytes(broken), "c")


def sealed(data: bytes) -> bytes:
    """The same with the checksum that belongs to it."""
    return data[:-4] + CRC.pack(zlib.crc32(data[:-4]))


def with_header(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    magic, version, length = FRONT.unpack_from(data)
    head = json.loads(data[16 : 16 + length])
    change(head)
    text = json.dumps(head).encode()
    text += b" " * (-(16 + len(text)) % 64)
    return sealed(FRONT.pack(magic, version, len(text)) + text + data[16 + length :])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: b"odt CKPT" + d[8:], "must begin with b'odt ckpt', but got b'odt CKPT'"),
        (lambda d: d[:8] + b"\x02" + d[9:], "version must be 1, but got 2"),
        (lambda d: sealed(d[:12] + b"\xff\xff\xff\x7f" + d[16:]), "its header must be"),
        (lambda d: sealed(d[:12] + b"\x00\x00\x00\x00" + d[16:]), "its header must be"),
        (lambda d: d[:-1] + bytes([d[-1] ^ 1]), "CRC-32 must be"),
        (lambda d: sealed(d[:-68] + d[-4:]), "bytes of arrays, but got"),
        (lambda d: sealed(d[:-4] + bytes(64) + d[-4:]), "bytes of arrays, but got"),
        (lambda d: with_header(d, lambda h: h.update(nominal=True)), "must hold 0 bytes"),
    ],
)
def test_a_damaged_front_is_an_error(
    damage: Callable[[bytes], bytes], words: str, data: bytes
) -> None:
    with pytest.raises(ModelError) as e:
        decode(damage(data), "c")
    assert words in str(e.value)
    assert "\n" not in str(e.value)


ENTRY: dict[str, object] = {"tensor": "x1", "role": "weight", "shape": [40, 30], "dtype": "float32"}
WRONG: dict[str, list[Any]] = {
    "optimizer": [1, None],
    "hyper_parameters": [
        *(1, {}, {"learning_rate": "1"}, {"learning_rate": [1]}),
        {"learning_rate": float("nan")},
        {"learning_rate": 0.1, "beta_1": [2]},
    ],
    "properties": [1, {"a": None}, {"a": True}, {"a": [1]}, {"a": float("inf")}],
    "nominal": [1, None, "no"],
    "entries": [
        *(1, [1], [{}], [ENTRY, ENTRY]),
        *([ENTRY | {"dtype": v}] for v in (1, "object", "int32", ">f4")),
        *([ENTRY | {"shape": v}] for v in (1, [-1], [1.5], ["a"], [True])),
        *([ENTRY | {name: 5}] for name in ("tensor", "role")),
    ],
    "progress": [1, {}, []],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, each in WRONG.items() for v in each])
def test_every_invalid_field_of_the_header_is_an_error(
    name: str, value: object, data: bytes
) -> None:
    with pytest.raises(ModelError, match="its header must be as odt writes it") as e:
        decode(with_header(data, lambda h: h.update({name: value})), "c")
    assert "\n" not in str(e.value)


NATURAL = ("step", "epoch", "position", "seed", "samples", "batch", "micro_batch", "workers")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in NATURAL for value in (-1, 1.5, "1", None, True)],
        *[("shuffle", value) for value in (0, None, "no")],
        *[(name, 1) for name in ("loss", "reduction", "kernels")],
        *[(f"trainable_{n}", value) for n in ("ops", "tensors") for value in (1, [-1], ["a"])],
        *[("sparse", value) for value in (1, [1], [[0]], [[0, 1]], [[0, ["a"]]], [[-1, [0]]])],
        ("unknown", 1),
    ],
)
def test_every_invalid_field_of_the_progress_is_an_error(
    name: str, value: object, data: bytes
) -> None:
    with pytest.raises(ModelError, match="its header must be as odt writes it"):
        decode(with_header(data, lambda h: h["progress"].update({name: value})), "c")


def test_an_old_file_without_selection_trains_all_operators(data: bytes) -> None:
    def older(head: dict[str, Any]) -> None:
        del head["progress"]["trainable_tensors"], head["progress"]["sparse"]

    assert decode(with_header(data, older), "c").progress == decode(data, "c").progress
    parts = {"trainable_tensors": [3, 1], "sparse": [[1, [0, 2]]]}
    found = decode(with_header(data, lambda h: h["progress"].update(parts)), "c").progress
    assert (found.trainable_tensors, found.sparse) == ((3, 1), ((1, (0, 2)),))


@pytest.mark.parametrize("key", ["optimizer", "hyper_parameters", "progress", "entries",
                                 "properties", "nominal"])  # fmt: skip
def test_every_missing_field_is_an_error(key: str, data: bytes) -> None:
    with pytest.raises(ModelError, match=f"KeyError: '{key}'"):
        decode(with_header(data, lambda h: h.pop(key)), "c")


def test_a_header_of_deep_brackets_is_refused(data: bytes) -> None:
    text = b"[" * 100_000
    text += b" " * (-(16 + len(text)) % 64)
    broken = FRONT.pack(b"odt ckpt", 1, len(text)) + text + bytes(4)
    with pytest.raises(ModelError, match="its header must be"):
        decode(sealed(broken), "c")


def test_another_model_gives_a_table_and_changes_nothing(data: bytes) -> None:
    with trainer(units=41) as t:
        before = written(taken(t))
        with pytest.raises(ModelError) as e:
            restore(decode(data, "c"), "c", t.graph, t.parameters)
        assert written(taken(t)) == before
    assert str(e.value) == (
        "c: must be of this model and optimizer, but got 9 differences: x4 (weight) is (3, 41) "
        "float32 in training and (3, 40) float32 in the checkpoint. `OdtError.details` lists all."
    )
    lines = e.value.details.splitlines()
    assert lines[0].split() == ["in", "training", "in", "the", "checkpoint"]
    assert lines[1].split("  ")[0] == "x4 (weight)"
    assert "(3, 41) float32" in lines[1]
    assert "(3, 40) float32" in lines[1]
    assert len(lines) == 1 + 9  # both of the first layer and the second's weights; m and v too


@pytest.mark.parametrize(
    ("optimizer", "hyper", "row"),
    [
        ("adamw", {}, "optimizer adamw adam"),
        ("sgd", {"momentum": 0.9}, "optimizer sgd adam"),
    ],
)
def test_another_optimizer_is_an_error(
    optimizer: str, hyper: dict[str, Any], row: str, data: bytes
) -> None:
    with trainer(optimizer, **hyper) as t, pytest.raises(ModelError) as e:
        restore(decode(data, "c"), "c", t.graph, t.parameters)
    assert " ".join(e.value.details.splitlines()[1].split()) == row


@pytest.mark.parametrize("value", [True, None, [1], float("nan"), float("inf")])
def test_properties_are_strings_and_finite_numbers(value: Any) -> None:
    with trainer() as t, pytest.raises(OptionError, match="`properties=`: a must be"):
        capture(t.graph, t.parameters, PROGRESS, {"a": value})
    names: Any = {1: "x"}
    with trainer() as t, pytest.raises(OptionError, match="names must be strings, but got 1"):
        capture(t.graph, t.parameters, PROGRESS, names)


@pytest.mark.parametrize(
    ("value", "rule"),
    [(2**63, "an integer of 64 bits"), (-(2**63) - 1, "an integer of 64 bits"),
     ("\ud800", "valid Unicode")],
)  # fmt: skip
def test_properties_must_fit_the_file(value: Any, rule: str) -> None:
    with trainer() as t:
        with pytest.raises(OptionError, match=f"a must be {rule}"):
            capture(t.graph, t.parameters, PROGRESS, {"a": value})
        for largest in (2**63 - 1, -(2**63)):
            made = capture(t.graph, t.parameters, PROGRESS, {"a": largest})
            assert decode(written(made), "c").properties == {"a": largest}


def test_only_a_checkpoint_before_the_first_step_may_lack_moments(data: bytes) -> None:
    whole = decode(data, "c")
    pairs = [p for p in zip(whole.entries, whole.arrays, strict=True) if p[0].role == "weight"]
    entries, arrays = map(tuple, zip(*pairs, strict=True))
    later = replace(whole, entries=entries, arrays=arrays)
    with trainer() as t:
        train(t)
        with pytest.raises(ModelError, match=r"^c: "):
            restore(later, "c", t.graph, t.parameters)
        assert t.parameters.step == whole.progress.step
        first = replace(later, progress=replace(later.progress, step=0))
        restore(first, "c", t.graph, t.parameters)
        assert t.parameters.step == 0
        assert not any(a.any() for state in t.parameters.slots.values() for a in state.values())
