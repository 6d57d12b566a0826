"""Parquet tables are read as the same tables of text, which pyarrow writes too."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.datafiles import made, refused, samples, sidecar

pytestmark = pytest.mark.accept
RNG = np.random.default_rng(4)
ROWS = 3000
SPLIT = ("--split", "train=0.8", "test=0.2", "--seed", "1")


def arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        pytest.fail("pyarrow: must be installed, but is not. pip install '.[tables]'", False)
    return pyarrow


def write(path: Path, columns: Mapping[str, Any]) -> Path:
    pa = arrow()
    table = pa.table(columns)
    pa.parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=700)
    texts = {
        name: [" ".join(map(str, v)) if isinstance(v, list) else v for v in column.to_pylist()]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    pa.csv.write_csv(pa.table(texts), path.with_suffix(".csv"))
    return path.with_suffix(".parquet")


def columns() -> dict[str, Any]:
    pa = arrow()
    day = datetime(2024, 1, 1, 6)
    words = RNG.choice(["red", "green", "blue"], ROWS).tolist()
    return {
        "real": [None if k % 100 == 7 else float(v) for k, v in enumerate(RNG.normal(size=ROWS))],
        "half": pa.array(RNG.normal(size=ROWS).astype("f2")),
        "whole": pa.array(RNG.integers(-9, 9, ROWS), pa.int8()),
        "money": pa.array([Decimal(k).scaleb(-2) for k in range(ROWS)], pa.decimal128(9, 2)),
        "yes": RNG.random(ROWS) > 0.5,
        "word": pa.array(words).dictionary_encode(),
        "day": pa.array([day + timedelta(hours=k) for k in range(ROWS)], pa.timestamp("ns")),
        "vector": pa.array(RNG.integers(0, 99, (ROWS, 3)).tolist(), pa.list_(pa.int32())),
        "label": RNG.choice(["cat", "dog"], ROWS).tolist(),
    }


def test_parquet_and_text_become_the_same_files(tmp_path: Path) -> None:
    parquet = write(tmp_path / "t", columns())
    options = ("--one-hot", "word", "--date", "day", "--missing", "mean", *SPLIT)
    for kind in ("parquet", "csv"):
        made("--source", tmp_path / f"t.{kind}", *options, "-o", tmp_path / kind)
    for split in ("train", "test"):
        ours, theirs = (tmp_path / kind / f"{split}.input.bin" for kind in ("parquet", "csv"))
        assert ours.read_bytes() == theirs.read_bytes()
    assert samples(ours).shape == (600, 5 + 3 + 6 + 3)
    record = sidecar(ours)["table"]
    assert record == sidecar(theirs)["table"]
    assert [c["name"] for c in record["columns"]] == list(columns())
    made("--source", parquet, "--as", f"{theirs}.json", "-o", tmp_path / "again")
    assert len(samples(tmp_path / "again/new.input.bin")) == ROWS


def test_columns_of_other_types_are_named(tmp_path: Path) -> None:
    pa = arrow()
    table = {
        "x": np.arange(100.0),
        "map": pa.array([{"q": 1}] * 100),
        "raw": pa.array([b"\0"] * 100),
        "words": pa.array([["a", "b"]] * 100),
        "y": ["a", "b"] * 50,
    }
    pa.parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    line = refused("--source", tmp_path / "t.parquet", "-o", tmp_path / "o")
    assert "but map holds struct<q: int64>, raw holds binary, words holds list<element: str" in line
    options = ("--leave-out", "map,raw", "--leave-out", "words")
    made("--source", tmp_path / "t.parquet", *options, *SPLIT, "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.input.bin").shape == (80, 1)
    line = refused("--source", tmp_path / "t.parquet", "--delimiter", ";", "-o", tmp_path / "p")
    assert "--delimiter" in line


def test_damaged_files_end_in_one_line(tmp_path: Path) -> None:
    pa = arrow()
    table = pa.table({"x": np.arange(200.0), "y": ["a", "b"] * 100})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    good = (tmp_path / "t.parquet").read_bytes()
    for data in (b"", b"PAR1", good[:-9], good[4:], b"a,b\n1,2\n"):
        (tmp_path / "bad.parquet").write_bytes(data)
        line = refused("--source", tmp_path / "bad.parquet", "-o", tmp_path / "o")
        assert "bad.parquet: must be a Parquet file, but got" in line
