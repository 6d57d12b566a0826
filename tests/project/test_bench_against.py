"""The comparison of odt with a former commit."""

import sys
from pathlib import Path

import click
import pytest
from bench.against import Row, command, fastest_epoch, install_commit, line, train
from bench.networks.plain import mnist


def test_a_row_trains_by_the_command(tmp_path: Path) -> None:
    row = Row("MNIST", mnist, 4, 8, "numpy")
    words = command(Path(sys.executable).with_name("odt"), row, tmp_path)
    assert words[-1] == "--no-shuffle"
    ms, mb = train(words, row.kernels)
    assert ms > 0
    assert mb > 10
    with pytest.raises(click.ClickException, match=r"--no-such-option failed"):
        train([*words, "--no-such-option"], "")


def test_the_fastest_epoch_is_the_figure() -> None:
    printed = "Epoch 0/2 - loss\nEpoch 1/2 - time: 2.5ms/step\nEpoch 2/2 - time: 2.25ms/step\n"
    assert fastest_epoch(printed) == 2.25


def test_a_line_has_medians_of_turns() -> None:
    turns = [((2.0, 30.0), (1.0, 20.0)), ((4.0, 32.0), (3.0, 21.0)), ((3.0, 31.0), (3.0, 22.0))]
    assert line("MNIST", turns) == "| MNIST | 3.000 | 3.000 | 0.750 | 31.0 | 21.0 |"


def test_an_unknown_commit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(click.BadParameter, match=r"must be a commit .* but got nothing-like-it"):
        install_commit("nothing-like-it", tmp_path)
