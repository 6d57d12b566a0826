"""The list of shipped models, and the script that fetches them."""

import sys
from pathlib import Path

import pytest
from support.paths import MODELS, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import fetch_shipped_models
from bench.shipped import cost

from odt.core.formats.reader import read_model

RNET = "mtcnn-rnet"  # its file is in tests/models


def test_each_model_has_one_origin_and_a_name_of_its_own() -> None:
    models = fetch_shipped_models.models()
    assert len(models) >= 60
    assert len({m["name"] for m in models}) == len({m["sha256"] for m in models}) == len(models)
    for model in models:
        assert ("package" in model) != ("repository" in model and "commit" in model), model
        assert len(model["sha256"]) == 64, model
        assert model["license"], model


def test_a_file_of_a_repository_is_found_by_its_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [m for m in fetch_shipped_models.models() if m["name"] in (RNET, "mtcnn-pnet")]
    monkeypatch.setattr(fetch_shipped_models, "models", lambda: listed)
    missing = fetch_shipped_models.fetch(tmp_path, MODELS)
    assert missing == ["mtcnn-pnet"]
    assert len(read_model(tmp_path / f"{RNET}.tflite").graph.inputs) == 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    (model,) = (m for m in fetch_shipped_models.models() if m["name"] == RNET)
    with pytest.raises(Exception, match="SHA-256 must be"):
        fetch_shipped_models._store(tmp_path, model, b"other")
    assert not list(tmp_path.iterdir())


def test_a_step_is_measured_beside_its_plan() -> None:
    """`make accept` measures all files; this one shows that the measuring works."""
    measured = cost(RNET, MODELS / f"{RNET}.tflite")
    assert measured.samples == 8
    assert measured.resized
    assert measured.step_ms > measured.forward_ms > 0
    assert 0.5 < measured.memory_to_plan <= 1.2
