"""The default learning rate of a model that is already trained follows from a few steps."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 10, 640)
X = (RNG.normal(size=(10, 784))[LABELS] / 4 + RNG.normal(size=(640, 784))).astype(np.float32)
LABELS[::5] = RNG.integers(0, 10, len(LABELS[::5]))  # which the model learned by heart
Y = np.eye(10, dtype=np.float32)[LABELS]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Models of one function: the first weights are divided by a number, the inputs multiplied."""
    paths = {}
    with odt.Trainer(MODEL) as one:
        one.fit(X, Y, epochs=3)
        before = one.weights["fc1_w"].copy()
        for scale in (1, 30, 300):
            paths[scale] = tmp_path_factory.mktemp("models") / f"{scale}.circle"
            one.weights["fc1_w"] = before / np.float32(scale)
            one.export(paths[scale])
    return paths


def fit(path: Path, scale: int, **options: Any) -> tuple[odt.Trainer, odt.History]:
    split = {name: options.pop(name) for name in ("seed", "epochs") if name in options}
    with odt.Trainer(path, **options) as one, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return one, one.fit(X * np.float32(scale), Y, **split)


def test_sensitive_weights_get_a_lower_rate(trained: dict[int, Path]) -> None:
    """Adam moves weights that are 30 times smaller by 30 times more of their size."""
    rates = []
    for scale, path in trained.items():
        one, history = fit(path, scale)
        rates.append(one.learning_rate)
        assert history.history["loss"][0] < 1.2 * history.start["loss"]
    assert rates[0] == 1e-4
    assert rates[0] > 9 * rates[1] > 9 * 9 * rates[2]


@pytest.mark.usefixtures("training_alone")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "sgd", "hyper_parameters": {"momentum": 0.9}},
        {"ema": 0.9, "batch_size": 8, "accumulate": 4},
        {"sparse": {"fc1_w": 0.5}},
        {"trainable": odt.last(2), "cache_frozen": "ram"},
        {"dropout": 0.5},
        {"memory_budget": "64MB"},
    ],
)
def test_the_steps_leave_nothing_behind(trained: dict[int, Path], options: dict[str, Any]) -> None:
    """Training has the bits of a run to which the same rate is given."""
    one, _ = fit(trained[30], 30, **options)
    rate = one.learning_rate
    assert rate < 0.001
    other, _ = fit(trained[30], 30, **options, learning_rate=rate)
    for name, w in one.weights.items():
        assert np.array_equal(w, other.weights[name]), name


def test_the_rate_does_not_depend_on_the_seed(trained: dict[int, Path]) -> None:
    rates = {fit(trained[30], 30, seed=seed)[0].learning_rate for seed in range(3)}
    assert len(rates) == 1


def test_a_second_call_keeps_the_rate(trained: dict[int, Path]) -> None:
    one, _ = fit(trained[1], 1)
    with odt.Trainer(trained[1]) as again, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            again.fit(X, Y)
        assert again.learning_rate == one.learning_rate == 1e-4


def test_a_model_with_little_to_learn_hardly_moves(tmp_path: Path) -> None:
    """Few samples, all of which it knows; ten times as many, or other labels, are more to learn."""
    with odt.Trainer(MODEL) as one:
        one.fit(X, Y, epochs=8)
        one.export(tmp_path / "model.circle")
        before = np.asarray(one.predict(X))
    one, history = fit(tmp_path / "model.circle", 1)
    assert history.start["loss"] < 0.05
    assert one.learning_rate == 1e-6
    with odt.Trainer(tmp_path / "model.circle", learning_rate=1e-6) as same:
        same.fit(X, Y)
        assert np.abs(np.asarray(same.predict(X)) - before).mean() < 1e-3
    shifted = np.where(np.arange(640)[:, np.newaxis] % 5, Y, np.roll(Y, 1, axis=1))
    for x, y in ((np.tile(X, (10, 1)), np.tile(Y, (10, 1))), (X, shifted)):
        with odt.Trainer(tmp_path / "model.circle") as other, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.fit(x, y)
            assert other.learning_rate >= 1e-5


def test_a_new_model_keeps_the_full_rate() -> None:
    one, _ = fit(MODEL, 1)
    assert one.learning_rate == 0.001


@pytest.mark.parametrize("options", [{"learning_rate": 0.001}, {"optimizer": odt.Adam(0.001)}])
def test_a_given_rate_is_kept(trained: dict[int, Path], options: dict[str, Any]) -> None:
    assert fit(trained[300], 300, **options)[0].learning_rate == 0.001


def test_the_command_chooses_the_same_rate(trained: dict[int, Path], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X * np.float32(30))
    np.save(tmp_path / "y.npy", Y)
    words = ["train", trained[30], "--load-input", tmp_path / "x.npy", "--load-expected"]
    words += [tmp_path / "y.npy", "--epochs", "2", "--run-dir", tmp_path / "run"]
    words += ["--export-circle", tmp_path / "out.circle"]
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "\n- learning_rate        = 0.001 or lower\n" in done.stdout
    one, _ = fit(trained[30], 30, epochs=2)
    assert f"The learning rate is {one.learning_rate:g}, not 0.001; --learning-rate" in done.stderr
    assert f'"learning_rate": {one.learning_rate}' in (tmp_path / "run/log.jsonl").read_text()
    with odt.Trainer(tmp_path / "out.circle") as other:
        for name, w in one.weights.items():
            assert np.array_equal(w, other.weights[name])
