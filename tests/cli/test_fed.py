"""odt fed simulate: files, lines, plot, resume, and refusals in one line."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.charts import values_of

import odt
from odt.cli.main import main
from odt.core.runtime.parameters import by_name
from odt.federated import new_trainer, simulate


def run(*words: object, status: int = 0) -> Result:
    done = CliRunner().invoke(main, ["fed", "simulate", *map(str, words)])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and data as odt gen-datafile names them."""
    path = tmp_path_factory.mktemp("fed")
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 8))
    for part, samples in (("train", 120), ("test", 60)):
        labels = rng.integers(0, 3, samples)
        x = (centers[labels] + rng.normal(0, 0.8, (samples, 8))).astype(np.float32)
        np.save(path / f"{part}.input.npy", x)
        np.save(path / f"{part}.output.npy", np.eye(3, dtype=np.float32)[labels])
    model = odt.new_model("mlp", like=path / "train.input.npy", hidden=(6,), seed=1)
    model.save(path / "model.tflite")
    return path


@pytest.fixture
def options(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    monkeypatch.chdir(tmp_path)
    words = ["--model", folder / "model.tflite", "--data", folder, "--clients", 4, "--rounds", 3]
    return [*words, "--metric", "accuracy", "--batch-size", 8]


def test_the_command_does_what_the_function_does(options: list[object], folder: Path) -> None:
    more = ("--partition", "dirichlet:1", "--strategy", "fedprox:mu=0.1", "--seed", 2)
    files = ("--log", "log.csv", "--plot", "plot.svg", "--export-tflite", "trained.tflite")
    lines = run(*options, *more, *files).stdout.splitlines()
    assert lines[0].startswith("clients: 4, with ")
    assert lines[1] == "trains: 75 parameters in 4 tensors"
    assert lines[2] == "== memory =="
    assert [line.partition(" - ")[0] for line in lines[-4:]] == [f"Round {k}/3" for k in range(4)]
    parts = {p: np.load(folder / f"{p}.npy") for p in ("train.input", "train.output")}
    held = (folder / "test.input.npy", folder / "test.output.npy")
    with new_trainer(folder / "model.tflite", batch_size=8, metrics=["accuracy"]) as trainer:
        history = simulate(
            trainer, parts["train.input"], parts["train.output"], clients=4, rounds=3, seed=2,
            partition="dirichlet:1", strategy="fedprox:mu=0.1", validation_data=held,
        )  # fmt: skip
        trainer.export("same.tflite")
    assert Path("same.tflite").read_bytes() == Path("trained.tflite").read_bytes()
    accuracy = history.of("val_accuracy")
    assert f"val_accuracy: {accuracy[3]:.4f}" in lines[-1]
    with open("log.csv") as file:
        assert [float(row["val_accuracy"]) for row in csv.DictReader(file)] == accuracy
    drawn = values_of(Path("plot.svg").read_text())["val_accuracy"]
    assert [y for _, y in drawn] == pytest.approx(accuracy, abs=0.01)


def test_a_federation_resumes(options: list[object]) -> None:
    run(*options, "--export-checkpoint", "whole.odt")
    more = ("--export-checkpoint", "fed.odt", "--decay", "none")
    run(*options, "--rounds", 2, *more)
    again = run(*options, "--rounds", 3, "--checkpoint", "fed.odt", *more)
    assert "Round 3/3" in again.stdout
    assert "Round 2/3" not in again.stdout
    wrong = run(*options, "--checkpoint", "fed.odt", status=1)
    assert "--checkpoint: must be resumed with decay none, but got cosine." in wrong.stderr


def test_plots_are_png_with_matplotlib(options: list[object]) -> None:
    run(*options, "--rounds", 1, "--plot", "plot.png")
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_validation_the_plot_shows_the_metric_of_the_clients(
    options: list[object], folder: Path
) -> None:
    x, y = folder / "train.input.npy", folder / "train.output.npy"
    files = ("--load-input", x, "--load-expected", y)
    words = [word for word in options if word not in ("--data", folder)]
    run(*words, *files, "--rounds", 2, "--log", "log.csv", "--plot", "plot.svg")
    with open("log.csv") as file:
        accuracy = [float(row["accuracy"]) for row in csv.DictReader(file) if row["accuracy"]]
    drawn = values_of(Path("plot.svg").read_text())["accuracy"]
    assert [y for _, y in drawn] == pytest.approx(accuracy, abs=0.01)


def test_clients_may_be_given_by_a_file(options: list[object]) -> None:
    np.save("clients.npy", np.arange(120) % 3)
    done = run(
        *options, "--clients", 3, "--rounds", 0, "--partition", "clients.npy", "--fraction", 0.3
    )
    assert done.stdout.startswith("clients: 3, with 40 to 40 samples, 120 in all\n")
    assert "- updates of 1 client " in done.stdout


def test_a_refused_update_is_a_line(options: list[object]) -> None:
    done = run(*options, "--learning-rate", 1e30, status=1)
    lines = done.stderr.splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"round 1: client {k}: ") for k, line in enumerate(lines[:4]))
    assert lines[4].startswith("Error: round 1: must have updates of at least 1 of 4 clients")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "nothing"), "nothing: must hold the files train.input"),
        (("--load-input", "x.npy"), "--load-input: must come with --load-expected"),
        (("--plot", "plot.jpg"), "--plot plot.jpg: must end in .svg or .png"),
        (("--log", "log.txt"), "--log: must end in .csv or .jsonl, but got log.txt"),
        (("--log", "a.csv", "--plot", "none/a.svg"), "none/a.svg"),
        (("--strategy", "fedsgd"), "--strategy: must be one of fedavg, fedprox"),
        (("--partition", "dirichlet"), "--partition: must be dirichlet:ALPHA"),
        (("--min-clients", 5), "--min-clients: must be at most 4"),
        (("--num-of-trainable-ops", 0), "--num-of-trainable-ops: must select weights, but got"),
        (("--export-checkpoint", "fed.npz"), "--export-checkpoint: must end in .odt"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    words: tuple[object, ...], message: str, options: list[object]
) -> None:
    done = run(*options, *words, status=1)
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("extension", "ema"), [("odt", 0.0), ("npz", 0.0), ("ckpt", 0.0), ("odt", 0.9)]
)
def test_checkpoints_of_devices_are_merged(
    extension: str, ema: float, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = (np.load(folder / f"train.{part}.npy") for part in ("input", "output"))
    trained = []
    for k in (1, 2):
        with odt.Trainer(folder / "model.tflite", batch_size=8, ema=ema) as trainer:
            trainer.fit(x[40 * k :], y[40 * k :], seed=k, save_to=f"{k}.odt")
            core = trainer.session.build()
            trained.append({n: a.copy() for n, a in by_name(core.graph, core.weights()).items()})
    words = ["fed", "merge", "1.odt", "2.odt", "--weights", "3,1", "-o", f"merged.{extension}"]
    done = CliRunner().invoke(main, [*words, "--model", str(folder / "model.tflite")])
    assert done.exit_code == 0, done.output
    CliRunner().invoke(
        main,
        ["checkpoint", "convert", f"merged.{extension}", "back.odt", "--model",
         str(folder / "model.tflite")],
    )  # fmt: skip
    with odt.Trainer(folder / "model.tflite", checkpoint="back.odt") as trainer:
        for name, a in trainer.weights.items():
            mean = 0.75 * trained[0][name] + 0.25 * trained[1][name]
            np.testing.assert_allclose(a, mean, atol=1e-6)
        assert trainer.session.build().parameters.step == 0
        history = trainer.fit(x, y, epochs=1)
    assert history.epoch == [0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "FILE...: must be two or more checkpoints, but got 0."),
        (("1.odt",), "FILE...: must be two or more checkpoints, but got 1."),
        (("1.odt", "1.odt", "--weights", "1"), "--weights: must be a number for each of 2"),
        (("1.odt", "1.odt", "--weights", "1,-1"), "--weights: must be numbers above 0"),
        (("1.odt", "other.odt"), "other.odt: must be of the same model and optimizer as 1.odt"),
        (("1.odt", "last.odt"), "last.odt: must be of the same model and optimizer as 1.odt"),
        (("1.odt", "none.odt"), "none.odt"),
    ],
)
def test_what_cannot_be_merged_is_refused_in_one_line(
    words: tuple[str, ...],
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, dict[str, Any]] = {
        "1.odt": {},
        "other.odt": {"optimizer": "adamw"},  # of arrays with the same names and shapes
        "last.odt": {"trainable": odt.last(1)},
    }
    for name, given in options.items():
        with odt.Trainer(folder / "model.tflite", **given) as trainer:
            trainer.save_checkpoint(name)
    done = CliRunner().invoke(main, ["fed", "merge", *words, "-o", "merged.odt"])
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not Path("merged.odt").exists()


def test_a_model_must_be_given() -> None:
    assert "--model: must be given" in run("--data", ".", status=1).stderr
