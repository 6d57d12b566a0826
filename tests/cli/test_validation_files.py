"""Validation on files of their own, with and without a cache of the frozen layers."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM

from odt import OdtWarning, Trainer
from odt.cli.main import main

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(4)


def odt(command: str, model: Path, *words: object) -> Result:
    return CliRunner().invoke(main, [command, str(model), *map(str, words)])


@pytest.fixture(name="files")
def write_files(tmp_path: Path) -> dict[str, list[Path]]:
    """70 samples for training and 23 for validation, which are shifted: their loss is higher."""
    found = {}
    for name, samples, shift in (("load", 70, 0.0), ("validation", 23, 0.5)):
        labels = RNG.integers(0, 10, samples)
        x = RNG.normal(size=(samples, 784)) + 0.1 * labels[:, None] + shift
        paths = [tmp_path / f"{name}.x.npy", tmp_path / f"{name}.y.npy"]
        np.save(paths[0], x.astype(np.float32))
        np.save(paths[1], np.eye(10, dtype=np.float32)[labels])
        found[name] = paths
    return found


def words(files: dict[str, list[Path]]) -> list[object]:
    sides = ("input", "expected")
    return [w for n, paths in files.items() for s, p in zip(sides, paths, strict=True)
            for w in (f"--{n}-{s}", p)]  # fmt: skip


def values(line: str) -> list[float]:
    return [float(v) for v in re.findall(r"\[0\] (\S+)", line)]


@pytest.mark.parametrize("more", [(), ("--data-length", 50), ("--drop-last",)])
def test_each_epoch_is_judged_by_all_samples_of_the_files(
    more: tuple[object, ...], files: dict[str, list[Path]], tmp_path: Path
) -> None:
    """The last epoch's validation is what `odt eval` finds for the exported file."""
    head = ("--num-of-trainable-ops", 2, "--metric", "accuracy", "--epochs", 3, *more)
    out, lines = tmp_path / "out.circle", []
    for cache in ((), ("--cache-frozen",)):
        done = odt("train", MODEL, *words(files), *head, *cache, "--export-circle", out)
        assert done.exit_code == 0, done.output
        lines.append([values(t) for t in re.findall("^Epoch .*", done.stdout, re.M)])
        x, y = files["validation"]
        found = odt("eval", out, "--load-input", x, "--load-expected", y, "--metric", "accuracy")
        assert "23 samples" in found.stdout
        np.testing.assert_allclose(lines[-1][-1][2:], values(found.stdout), atol=1.01e-4)
    np.testing.assert_allclose(lines[0], lines[1], atol=2e-4)
    assert len(lines[0]) == 4  # epochs 0 … 3, each with loss and accuracy of both parts
    assert {len(found) for found in lines[0]} == {4}


def test_early_stopping_looks_at_the_files(files: dict[str, list[Path]], tmp_path: Path) -> None:
    options = ("--epochs", 12, "--patience", 1, "--keep-best", "--learning-rate", 0.05)
    done = odt("train", MODEL, *words(files), *options, "--export-circle", tmp_path / "out.circle")
    assert done.exit_code == 0, done.output
    losses = [values(t)[1] for t in re.findall("^Epoch [1-9].*", done.stdout, re.M)]
    assert len(losses) < 12
    assert losses[-1] >= losses[-2] == min(losses)
    assert f"best: epoch {len(losses) - 1} - val_loss: [0] {losses[-2]:.4f}; exp" in done.stdout


def test_files_and_a_split_are_refused_together(files: dict[str, list[Path]]) -> None:
    done = odt("train", MODEL, *words(files), "--validation-split", 0.2)
    assert done.exit_code == 1
    assert (
        "--validation-split: must be left out with --validation-input, but got 0.2" in done.stderr
    )


def test_a_file_that_trains_and_validates_is_named(files: dict[str, list[Path]]) -> None:
    files["validation"] = files["load"]
    done = odt("train", MODEL, *words(files), "--epochs", 1)
    assert done.exit_code == 0, done.output
    assert "Warning: --validation-input: its 70 samples are those of " in done.stderr
    x, y = map(str, files["load"])
    with Trainer(MODEL) as trainer, pytest.warns(OdtWarning, match="its 70 samples are those of"):
        trainer.fit(x, y, validation_data=(x, y))


def test_a_file_that_is_read_is_not_written_over(files: dict[str, list[Path]]) -> None:
    path = files["validation"][0]
    done = odt("train", MODEL, *words(files), "--export-circle", path)
    assert done.exit_code == 1
    assert "--validation-input" in done.stderr
