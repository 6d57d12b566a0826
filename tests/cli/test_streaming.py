"""Commands on a streaming model that hears a wake word, with recorded speech."""

from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from support.paths import MODELS

from odt.cli.main import main

WAKE_WORD = str(MODELS / "okay-nabu-int8.tflite")
SPEECH = np.load(MODELS / "okay-nabu-speech.npz")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def files(folder: Path) -> tuple[str, ...]:
    np.save(folder / "x.npy", SPEECH["x"])
    np.save(folder / "y.npy", SPEECH["y"])
    return "--load-input", str(folder / "x.npy"), "--load-expected", str(folder / "y.npy")


def test_predict_and_eval_read_sequences(tmp_path: Path) -> None:
    given, length = files(tmp_path), ("--sequence-length", "50")
    every, last = tmp_path / "every.npy", tmp_path / "last.npy"
    for path, more in ((every, ["--return-sequences"]), (last, [])):
        result = run("predict", WAKE_WORD, *given[:2], *length, *more, "--output", str(path))
        assert result.exit_code == 0, result.output
    assert np.load(every).shape == (8, 50, 1)
    heard = np.load(last)
    assert np.array_equal(np.load(every)[:, -1], heard)
    result = run("eval", WAKE_WORD, *given, *length, "--metric", "accuracy")
    accuracy = np.mean((heard > 0.5) == SPEECH["y"])
    assert f" accuracy: [0] {accuracy:.4f}" in result.output


def test_commands_ask_for_the_length_of_sequences(tmp_path: Path) -> None:
    for command in ("predict", "eval", "plan", "train"):
        given = files(tmp_path)[: {"predict": 2, "plan": 0}.get(command, 4)]
        result = run(command, WAKE_WORD, *given)
        assert result.exit_code == 1, command
        assert result.stderr.splitlines()[-1].startswith(
            "Error: --sequence-length: must be given for"
        )


def test_inspect_and_check_describe_a_streaming_model(tmp_path: Path) -> None:
    shown = run("inspect", WAKE_WORD).output
    assert "45  ASSIGN_VARIABLE" in shown
    assert "parameters: 37,185 values in 30 tensors" in shown
    for more in ([], ["--sequence-length", "54"]):
        checked = run("check", WAKE_WORD, "--batch-size", "4", *more).output
        assert "gradients pass straight through rounding" in checked
        assert "The model can be trained." in checked
