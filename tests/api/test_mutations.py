"""Damaged checkpoints, artifacts, runs and federations: an answer or one line; accept: 20,000."""

from pathlib import Path

import pytest
from support.fuzzed_states import KINDS, fuzz, prepare


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_damaged_states(name: str, files: Path, tmp_path: Path) -> None:
    fuzz(KINDS[name], files, tmp_path, 6, seed=0)
