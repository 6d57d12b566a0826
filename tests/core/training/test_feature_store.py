"""The file of stored features: whole, bounded, checked when it is read."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odt.core.training.feature_store import FeatureStore, read_store
from odt.errors import DataError, OptionError

RNG = np.random.default_rng(0)


def store(samples: int = 6, width: int = 4, count: int = 20) -> FeatureStore:
    features = RNG.normal(size=(samples, width)).astype(np.float32)
    empty = FeatureStore("5e", width).with_names(("cat", "dög", "fish"))
    return empty.with_samples(features, np.arange(samples) % 2, count, "reservoir", seed=0)


def test_a_store_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = store()
    written.write(tmp_path / "s.npz")
    read = read_store(tmp_path / "s.npz")
    assert (read.frozen, read.width, read.names) == ("5e", 4, ("cat", "dög", "fish"))
    assert [(c.seen, len(c)) for c in read.classes] == [(3, 3), (3, 3), (0, 0)]
    np.testing.assert_array_equal(read.features, written.features)
    assert read.labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_an_empty_store_reads_back(tmp_path: Path) -> None:
    FeatureStore("5e", 3).with_names(["a"]).write(tmp_path / "s.npz")
    assert len(read_store(tmp_path / "s.npz")) == 0


def test_the_file_is_within_its_limit() -> None:
    many = store(3000, 16, 1500)
    for limit in (2000, 3000, 9999):
        count = many.samples_within(500, limit)
        small = many.with_samples(np.empty((0, 16), np.float32), np.empty(0), count, "herding", 0)
        assert {len(c) for c in small.classes[:2]} == {count}
        assert limit - 4 * 20 - 3 * 32 < len(small.encoded()) + count * 20 <= limit, "one is empty"
    with pytest.raises(OptionError, match=r"`store_bytes=`: must be at least .* but got 1200"):
        many.samples_within(500, 1200)


def test_classes_are_added_and_left_out() -> None:
    more = store().with_names(("cat", "dog"))
    assert (len(more), more.names) == (6, ("cat", "dog"))
    assert [len(c) for c in more.with_names(("cat", "dog", "x", "y")).classes] == [3, 3, 0, 0]


def rewritten(path: Path, **changes: Any) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    described = json.loads(arrays["store"].tobytes())
    for name, value in changes.items():
        if name in arrays:
            arrays[name] = value(arrays[name])
        else:
            described[name] = value
    arrays["store"] = np.frombuffer(json.dumps(described).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays)
    path.write_bytes(out.getvalue())


CLASS = {"name": "a", "seen": 3, "stored": 3}
DAMAGE: list[dict[str, Any]] = [
    {"version": 2},
    {"format": "odt-lora"},
    {"classes": []},
    {"classes": [CLASS, CLASS, CLASS]},
    {"classes": [CLASS, {**CLASS, "name": "b", "stored": 4}, {**CLASS, "name": "c", "stored": 0}]},
    {"classes": [{**CLASS, "seen": True}]},
    {"values": lambda a: a[:-1]},
    {"values": lambda a: a.astype(np.int16)},
    {"scales": lambda a: a * np.nan},
    {"scales": lambda a: -a},
    {"scales": lambda a: a * 0 + np.float32(3e38)},
    {"means": lambda a: a + np.inf},
    {"means": lambda a: a[..., :0]},
    {"means": lambda a: a.ravel()},
]


@pytest.mark.parametrize("changes", DAMAGE)
def test_damaged_stores_are_refused_in_one_line(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "s.npz"
    store().write(path)
    rewritten(path, **changes)
    with pytest.raises(DataError, match=r"s.npz: must be a store of features") as e:
        read_store(path)
    assert str(e.value).isprintable()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.npz").write_bytes(b"PK\3\4")
    with pytest.raises(DataError, match="must be a store of features written by odt"):
        read_store(tmp_path / "s.npz")
    with pytest.raises(DataError, match="not found"):
        read_store(tmp_path / "none.npz")
    assert replace(store(), frozen="x") != store()
