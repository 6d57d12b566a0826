"""A format of sources is one module in core/datasets/formats."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from support.paths import FOLDERS, ROOT

from odt.core.datasets.open_source import FORMATS, SOURCE_FORMATS

JSON_LINES = '''"""JSON lines: {"x": values, "y": values} for each sample."""

import json

import numpy as np

from odt.core.datasets.source import ArrayPart, Source
from odt.core.datasets.source_format import Opening, SourceFormat
from odt.core.storage.reading import reading


def open_file(opening: Opening) -> Source:
    with reading(opening.text, "must be JSON lines"):
        rows = [json.loads(line) for line in opening.path.read_text().splitlines()]
        x, y = (np.array([row[name] for row in rows], np.float32) for name in ("x", "y"))
    part = ArrayPart([x], [y], classes=False)
    return Source(opening.path.stem, "features", {"all": part})


FORMATS = (SourceFormat("jsonl", open_file, (".jsonl",)),)
'''


def test_suffixes_and_places_belong_to_one_format() -> None:
    suffixes = [s for row in SOURCE_FORMATS.values() for s in row.suffixes]
    assert len(suffixes) == len({*suffixes})
    assert FORMATS[:3] == ("auto", "images", "wav")


def test_a_format_is_added_by_its_file(tmp_path: Path) -> None:
    """In a copy laid out as the installed package, from the file to data files."""
    ignored = shutil.ignore_patterns("__pycache__", "src")
    for package, folder in sorted(FOLDERS.items()):
        shutil.copytree(ROOT / folder, tmp_path / package.replace(".", "/"), ignore=ignored)
    module = tmp_path / "odt/core/datasets/formats/json_lines.py"
    module.write_text(JSON_LINES, encoding="utf-8")
    rows = [{"x": [k, 2 * k], "y": [3 * k]} for k in range(10)]
    (tmp_path / "table.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    odt = [sys.executable, "-m", "odt", "gen-datafile", "--source", "table.jsonl", "--regression"]
    options = ["--split", "train=1.0", "--no-shuffle", "--out-dir", "out"]
    subprocess.run(
        [*odt, *options], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True
    )
    x = np.fromfile(tmp_path / "out/train.input.bin", np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(x, [row["x"] for row in rows])
