"""`odt artifacts` writes a folder and checks one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

from odt.cli.main import main

pytestmark = pytest.mark.usefixtures("training_alone")


def odt(*words: object) -> str:
    """Output of a command that succeeds."""
    done = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*words: object) -> str:
    """The one line of a command that fails."""
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 1
    assert len(done.output.splitlines()) == 1, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    np.save(path / "x.npy", rng.normal(size=(64, 784)).astype(np.float32))
    np.save(path / "y.npy", np.eye(10, dtype=np.float32)[np.arange(64) % 10])
    shutil.copy(MLP_SM / "model.circle", path / "m.circle")
    return path


def test_a_folder_is_written_checked_and_trained_with(folder: Path) -> None:
    device = folder / "device"
    data = ("--load-input", folder / "x.npy", "--load-expected", folder / "y.npy")
    printed = odt(
        "artifacts", folder / "m.circle", *data, "--optimizer", "sgd", "--learning-rate", 0.01,
        "--num-of-trainable-ops", 2, "--memory-budget", "64MB", "--metric", "accuracy",
        "--output", device,
    )  # fmt: skip
    assert "model.circle    408 kB" in printed
    assert "first losses on the samples: " in printed
    assert "the first losses are those of the workstation" in odt("artifacts", "--check", device)
    trained = odt("train", "--config", device / "recipe.toml", *data, "--epochs", 1)
    assert "budget 64,000,000" in trained
    assert " - accuracy: [0] " in trained
    assert "results will differ" not in trained
    manifest = json.loads((device / "artifacts.json").read_text(encoding="utf-8"))
    manifest["expected"]["losses"][0] = 9.0
    (device / "artifacts.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "artifacts.json: the first losses must be" in refused("artifacts", "--check", device)


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    model = folder / "m.circle"
    assert "--output: must be given" in refused("artifacts", model)
    assert "--output: must be a new folder" in refused("artifacts", model, "--output", folder)
    together = refused("artifacts", "--check", folder, "--output", folder, "--steps", 5)
    assert "--check: must be given alone, but got --output, --steps, too." in together
    lone = ("artifacts", model, "--output", folder / "d", "--load-input", folder / "x.npy")
    assert "must come with --load-expected" in refused(*lone)
    assert "artifacts.json: must be" in refused("artifacts", "--check", folder)
    assert not (folder / "d").exists()
