"""odt fed init: the files of a Flower app, its settings, and refusals in one line."""

import ast
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import odt
from odt.cli.main import main


def run(*words: object, status: int = 0) -> Result:
    done = CliRunner().invoke(main, ["fed", "init", *map(str, words)])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("data").mkdir()
    for part in ("train", "test"):
        np.save(f"data/{part}.input.npy", rng.normal(size=(20, 8)).astype(np.float32))
        np.save(f"data/{part}.output.npy", np.eye(3, dtype=np.float32)[rng.integers(0, 3, 20)])
    odt.new_model("mlp", like="data/train.input.npy", hidden=(6,), seed=1).save("model.tflite")
    return ["--model", "model.tflite", "--data", "data"]


def settings(folder: str) -> dict[str, Any]:
    project = tomllib.loads(Path(folder, "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == []  # else Flower asks the network
    config: dict[str, Any] = project["tool"]["flwr"]["app"]["config"]
    return config


def test_an_app_has_the_options_as_settings(data: list[object], tmp_path: Path) -> None:
    more = (
        "--rounds",
        7,
        "--metric",
        "accuracy",
        "--metric",
        "f1-score",
        "--lr",
        0.1,
        "--reduction",
        "sum",
        "--bias-only",
    )
    printed = run("My app", *data, "--partition", "dirichlet:0.3", *more).output
    command = shlex.split(printed.splitlines()[-1])
    assert Path(command[-1]) == Path("My app", "run.py")
    assert settings("My app") == {
        "model": str(tmp_path / "model.tflite"),
        "load-input": str(tmp_path / "data" / "train.input.npy"),
        "load-expected": str(tmp_path / "data" / "train.output.npy"),
        "validation-input": str(tmp_path / "data" / "test.input.npy"),
        "validation-expected": str(tmp_path / "data" / "test.output.npy"),
        "clients": 10,
        "partition": "dirichlet:0.3",
        "rounds": 7,
        "epochs": 1,
        "decay": "cosine",
        "min-clients": 1,
        "payload": "float32",
        "seed": 0,
        "reduction": "sum",
        "learning-rate": 0.1,
        "metric": "accuracy,f1_score",
        "bias-only": True,
        "timeout": 3600,
        "state": str(tmp_path / "My app" / "state"),
        "out": str(tmp_path / "My app" / "trained.tflite"),
    }


def test_an_app_has_all_files_and_they_parse(data: list[object]) -> None:
    run("app", *data, "--clients", 3)
    names = {path.name for path in Path("app").iterdir()}
    python = {"client_app.py", "server_app.py", "run.py", "make_keys.py"}
    assert names == {"pyproject.toml", "README.md", "environment.sh", *python}
    for name in python:
        ast.parse(Path("app", name).read_text(encoding="utf-8"))
    assert "num-supernodes=3 " in Path("app", "README.md").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="names of files are Unicode there")
def test_a_path_that_is_not_utf8_is_one_line(data: list[object]) -> None:
    odd = "caf\udce9.tflite"
    Path(odd).write_bytes(Path(str(data[1])).read_bytes())
    done = run("app", *data, "--model", odd, status=1)
    assert "must be text in UTF-8" in done.output
    assert done.output.count("\n") == 1
    assert not Path("app").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["data"], "data: must be new or empty, but has files."),
        (["app", "--partition", "of.npy"], "--partition: must be iid, dirichlet,"),
        (
            ["app", "--loss-weight", "0=2", "--loss-weight", "1=3"],
            "--loss-weight: must be left out of a Flower app, but got 0=2, 1=3.",
        ),
        (
            ["app", "--validation-input", "model.tflite", "--validation-expected", "none.npy"],
            "none.npy: not found.",
        ),
        (["app", "--model", "none.tflite"], "none.tflite: "),
        (["app", "--data", "none"], "none: must hold the files train.input"),
        (["..."], "must have a letter or digit in its name"),
        (["app", "--loss", "own_losses:mse"], "--loss: must be one of odt's in a Flower app"),
    ],
)
def test_what_cannot_be_an_app_is_one_line(words: list[str], line: str, data: list[object]) -> None:
    Path("own_losses.py").write_text("mse = (lambda t, y: 0, lambda t, y: 0)\n")
    done = run(words[0], *data, *words[1:], status=1)
    assert line in done.output
    assert done.output.count("\n") == 1
    assert not Path("app").exists()
