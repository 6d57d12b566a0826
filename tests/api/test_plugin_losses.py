"""Losses of the user: objects in Python, module:object on the command line."""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, Module
from odt.loss import loss_text

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[np.arange(64) % 10]
W = RNG.uniform(0, 2, 64).astype(np.float32)
SOURCE = """
class cubic:
    @staticmethod
    def value(t, y):
        return (abs(y - t) ** 3).mean(axis=1)

    @staticmethod
    def gradient(t, y):
        return 3 * (y - t) * abs(y - t) / y.shape[1]

class wrong(cubic):
    @staticmethod
    def gradient(t, y):
        return y - t + 1
"""


class Squared:
    """The mean squared error, as a user would write it."""

    def value(self, t: Any, y: Any) -> Any:
        return ((y - t) ** 2).mean(axis=1)

    def gradient(self, t: Any, y: Any) -> Any:
        return 2 * (y - t) / y.shape[1]


def trained(loss: Any, **more: Any) -> odt.Trainer:
    trainer = odt.Trainer(MODEL, loss=loss, batch_size=16)
    trainer.fit(X, Y, seed=1, **more)
    return trainer


@pytest.mark.parametrize("more", [{}, {"sample_weight": W}])
def test_a_loss_of_the_user_trains_as_odts_own(more: dict[str, Any]) -> None:
    with trained("mse", **more) as own:
        squared = Squared()
        for loss in (squared, (squared.value, squared.gradient)):
            with trained(loss, **more) as users:
                for name, a in own.weights.items():
                    np.testing.assert_allclose(users.weights[name], a, rtol=1e-4, atol=1e-6)
                assert users.evaluate(X, Y)["loss"] == pytest.approx(own.evaluate(X, Y)["loss"])


def test_two_losses_of_one_class_are_two_losses() -> None:
    class Scaled(Squared):
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def value(self, t: Any, y: Any) -> Any:
            return self.factor * super().value(t, y)

    first, second = (odt.Trainer(MODEL, loss=Scaled(factor)) for factor in (1, 10))
    with first, second:
        loss = first.evaluate(X, Y)["loss"]
        assert second.evaluate(X, Y)["loss"] == pytest.approx(10 * loss, rel=1e-5)
    names = [loss_text(pair) for pair in ((abs, max), (max, abs), (abs, max))]
    assert names[0] == names[2] != names[1]


def test_the_value_of_a_batch_is_computed_once() -> None:
    counts = []

    class Counted(Squared):
        def value(self, t: Any, y: Any) -> Any:
            counts.append(len(y))
            return super().value(t, y)

    trained(Counted()).close()
    assert sum(counts) == 5 * len(X), "in five epochs"


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (7, "must have two functions, value and gradient"),
        ((lambda t, y: 1.0, Squared().gradient), "must give a loss for each of .* samples"),
        ((Squared().value, lambda t, y: y[:1]), "must have the shape of the outputs"),
        ("nosuchmodule:x", "must be a Python object, module:object, but got: No module named"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, message: str) -> None:
    with pytest.raises(odt.OptionError, match=message):
        trained(loss)


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


def test_the_command_line_imports_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_losses.py").write_text(SOURCE)
    np.save("x.npy", X)
    np.save("y.npy", Y)
    files = ["--load-input", "x.npy", "--load-expected", "y.npy"]
    status, output = run("check", MODEL, "--loss", "my_losses:cubic")
    assert (status, "The model can be trained." in output) == (0, True), output
    assert run("check", MODEL, "--loss", "my_losses:wrong")[0] == 1
    words = ["train", MODEL, *files, "--loss", "my_losses:cubic"]
    status, output = run(*words, "--epochs", 1, "--export-checkpoint", "c.odt")
    assert (status, "{loss = my losses:cubic," in output) == (0, True), output
    status, output = run(*words, "--epochs", 2, "--checkpoint", "c.odt")
    assert status == 0, output
    status, output = run(*words, "--epochs", 1, "--export-circleplus", "plus.circle")
    assert (status, "in a circle+ file, but got my" in output) == (1, True), output


def test_a_checkpoint_imports_nothing(tmp_path: Path) -> None:
    with trained(Squared()) as trainer:
        trainer.save_checkpoint(tmp_path / "c.odt")
        name = str(trainer.session.recipe.info.loss)
    data = (tmp_path / "c.odt").read_bytes()
    assert name.encode() in data
    from odt.kernels.registry import LOSSES

    del LOSSES._added[name]
    with pytest.raises(
        odt.ModelError, match="is a custom loss of a Python module and must be given"
    ):
        odt.Trainer(MODEL, checkpoint=tmp_path / "c.odt")


MARKER = "open('MARKER', 'w').close()\n" + SOURCE


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A loss of the current folder whose module leaves the file MARKER when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "marker_losses", raising=False)
    Path("marker_losses.py").write_text(MARKER)
    return "marker_losses:cubic"


def test_artifacts_import_nothing(marker: str) -> None:
    """SHA-256 in the manifest are those of the changed file, as an attacker would write them."""
    odt.generate_artifacts(MODEL, "d", batch_size=4)
    recipe, manifest = Path("d/recipe.toml"), Path("d/artifacts.json")
    before = hashlib.sha256(recipe.read_bytes()).hexdigest()
    with recipe.open("a") as file:
        file.write(f'output-loss = ["0={marker}"]\n')
    after = hashlib.sha256(recipe.read_bytes()).hexdigest()
    manifest.write_text(manifest.read_text().replace(before, after))
    with pytest.raises(odt.OdtError, match="is a custom loss of a Python module and must be given"):
        odt.Trainer.from_artifacts("d")
    words = ["--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin"]
    assert run("train", "--config", recipe, *words)[0] == 1
    assert not Path("MARKER").exists()


def test_artifacts_of_the_ort_interface_import_nothing(marker: str) -> None:
    artifacts.generate_artifacts(MODEL, loss="mean_squared_error")
    path = Path("training_model.json")
    path.write_text(path.read_text().replace('"mean_squared_error"', f'"{marker}"'))
    state = CheckpointState.load_checkpoint("checkpoint")
    with pytest.raises(odt.OdtError, match="is a custom loss of a Python module and must be given"):
        Module(path, state)
    assert not Path("MARKER").exists()
    with pytest.raises(odt.OdtError, match="must be one of odt's in artifacts"):
        artifacts.generate_artifacts(MODEL, loss=marker)  # what odt writes, odt must read
