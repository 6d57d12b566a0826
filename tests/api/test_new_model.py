"""`odt new` and `odt.new_model`: small networks whose shapes follow from data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.judges import litert, onert

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(4)
SHAPES = {
    "mlp": (5, 2),
    "cnn": (20, 17, 2),
    "ds-cnn": (19, 10),
    "autoencoder": (6, 5),
    "lstm": (7,),
}


def samples(*shape: int, count: int = 24) -> Array:
    return RNG.normal(size=(count, *shape)).astype(np.float32)


def one_hot(classes: int, count: int = 24) -> Array:
    return np.eye(classes, dtype=np.float32)[np.arange(count) % classes]


def weights(model: odt.Model, name: str) -> Array:
    return next(a for n, a in model.parameters.items() if n.endswith(name))


def constants(path: Path) -> dict[str, Any]:
    return {t.name: t.data for t in read_model(path).graph.tensors}


def new(*words: object) -> Result:
    return CliRunner().invoke(main, ["new", *map(str, words)])


@pytest.mark.parametrize("kind", SHAPES)
def test_litert_and_onert_compute_what_odt_does(kind: Any, tmp_path: Path) -> None:
    pytest.importorskip("onert")
    x = samples(*SHAPES[kind], count=2)
    for ending, judge in (("tflite", litert), ("circle", lambda p, a: onert(p, a, tmp_path))):
        options: dict[str, Any] = {"file_format": ending, "normalize": True, "seed": 1}
        model = odt.new_model(kind, like=(x, one_hot(4, 2)), **options)
        model.save(tmp_path / f"new.{ending}")
        with odt.Trainer(model, loss="mean_squared_error") as trainer:
            ours = trainer.predict(x)
        assert np.ptp(ours) > 1e-3
        np.testing.assert_allclose(judge(tmp_path / f"new.{ending}", [x])[0], ours, atol=1e-5)


@pytest.mark.parametrize(
    ("targets", "shape", "operator", "loss"),
    [
        (one_hot(3), (3,), "SOFTMAX", "categorical-crossentropy"),
        (np.arange(24) % 5, (5,), "SOFTMAX", "sparse-categorical-crossentropy"),
        (one_hot(3) + one_hot(3)[::-1].round() > 0, (3,), "LOGISTIC", "binary-crossentropy"),
        (samples(4), (4,), "FULLY_CONNECTED", "mean-squared-error"),
        (samples(2, 3), (2, 3), "RESHAPE", "mean-squared-error"),
    ],
)
def test_the_output_follows_from_the_targets(
    targets: Array, shape: tuple[int, ...], operator: str, loss: str, tmp_path: Path
) -> None:
    if targets.dtype == bool:
        targets = targets.astype(np.float32)
    np.save(tmp_path / "train.input.npy", samples(6))
    np.save(tmp_path / "train.output.npy", targets)
    out = tmp_path / "m.tflite"
    result = new("mlp", "--like", tmp_path / "train.input.npy", "-o", out)
    assert result.exit_code == 0, result.output
    graph = read_model(out).graph
    assert graph.nodes[-1].op == operator
    assert graph.tensors[graph.outputs[0]].spec.shape == (1, *shape)
    words = result.output.splitlines()[1].removeprefix("Train it: odt ").split()
    assert (loss in words) == (operator not in ("SOFTMAX", "LOGISTIC") or "sparse" in loss)
    trained = CliRunner().invoke(main, [*words, "--epochs", "1"])
    assert trained.exit_code == 0, trained.output


def test_the_sizes_are_the_users() -> None:
    model = odt.new_model("mlp", input_shape=[8], outputs=2, hidden=(5, 3))
    assert [w.shape for w in model.parameters.values()][::2] == [(5, 8), (3, 5), (2, 3)]
    model = odt.new_model("cnn", input_shape=(9, 7, 3), outputs=4, filters=(5,), hidden=())
    assert [w.shape for w in model.parameters.values()][::2] == [(5, 3, 3, 3), (4, 5 * 4 * 5)]
    model = odt.new_model("ds-cnn", input_shape=(9, 7), outputs=4, filters=(5, 6, 7))
    assert [n.operator for n in model.nodes].count("DEPTHWISE_CONV_2D") == 2
    model = odt.new_model("autoencoder", input_shape=(10,), hidden=(6, 2))
    assert [len(w) for w in model.parameters.values()][1::2] == [6, 2, 6, 10]
    model = odt.new_model("lstm", input_shape=(10, 3), outputs=2, units=(4, 5), hidden=(6,))
    assert [n.operator for n in model.nodes].count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 2


def test_a_cnn_pools_until_the_picture_is_small() -> None:
    for size, convolutions in ((8, 2), (28, 2), (64, 3), (128, 4), (224, 5)):
        model = odt.new_model("cnn", input_shape=(size, size, 1), outputs=2)
        assert [n.operator for n in model.nodes].count("CONV_2D") == convolutions


def test_weights_are_drawn_as_he_and_glorot_do() -> None:
    model, again, other = (
        odt.new_model("lstm", input_shape=(4, 300), outputs=200, units=(64,), hidden=(500,), seed=s)
        for s in (1, 1, 2)
    )
    for name, variance in (
        ("dense_2/w", 2 / 64),  # before RELU: 2 / fan-in
        ("output/w", 2 / (500 + 200)),  # 2 / (fan-in + fan-out)
        ("lstm_0/wi", 2 / (300 + 4 * 64)),
    ):
        assert weights(model, name).var() == pytest.approx(variance, rel=0.05)
        assert np.array_equal(weights(model, name), weights(again, name))
        assert not np.array_equal(weights(model, name), weights(other, name))
    r = weights(model, "lstm_0/ro")
    np.testing.assert_allclose(r @ r.T, np.eye(64), atol=1e-5)
    assert (weights(model, "lstm_0/bf") == 1).all()
    assert not weights(model, "output/b").any()


def test_normalization_has_the_statistics_of_the_data(tmp_path: Path) -> None:
    x, y = samples(5, 3, count=200) * [1, 20, 0.3] + [5, -3, 0], samples(2) * 30 + 100
    x[..., 2] = 7
    model = odt.new_model("mlp", like=(x, y[np.arange(200) % 24]), normalize=True)
    model.save(tmp_path / "m.tflite")
    found = constants(tmp_path / "m.tflite")
    std = x.reshape(-1, 3).std(axis=0)
    std[2] = 1
    np.testing.assert_allclose(found["normalization/mean"], x.mean(axis=(0, 1)), rtol=1e-4)
    np.testing.assert_allclose(found["normalization/scale"], 1 / std, rtol=1e-4)
    assert found["normalization/output_mean"].mean() == pytest.approx(100, rel=0.2)
    assert not [name for name in model.parameters if name.startswith("normalization")]
    with odt.Trainer(model, loss="mse") as trainer:
        trainer.fit(x.astype("f4"), y[np.arange(200) % 24], epochs=1)
        trainer.export(tmp_path / "trained.tflite")
    after = constants(tmp_path / "trained.tflite")
    assert np.array_equal(after["normalization/mean"], found["normalization/mean"])
    assert not np.array_equal(after["output/w"], found["output/w"])


def test_an_autoencoder_of_normalized_data_has_outputs_in_the_range_of_the_data() -> None:
    x = samples(8) * 50 + 300
    with odt.Trainer(odt.new_model("autoencoder", like=(x, x), normalize=True), loss="mse") as t:
        assert abs(t.predict(x) - x).mean() < 100


def test_defaults_learn_classes_and_series() -> None:
    y = np.arange(600) % 3
    x = (RNG.normal(size=(3, 12))[y] * 1.5 + RNG.normal(size=(600, 12))).astype(np.float32)
    series = np.cumsum(RNG.normal(size=(600, 12, 1)) * 0.3, axis=1).astype(np.float32)
    series[::2] *= -np.sign(series[::2, -1:])
    series[1::2] *= np.sign(series[1::2, -1:])
    for kind, data, labels in (("mlp", x, y), ("lstm", series, np.arange(600) % 2)):
        model = odt.new_model(kind, like=(data, labels))  # type: ignore[arg-type]
        loss = "sparse_categorical_crossentropy"
        with odt.Trainer(model, loss=loss, metrics=["accuracy"]) as trainer:
            trainer.fit(data[:400], labels[:400], epochs=20)
            assert trainer.evaluate(data[400:], labels[400:])["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mlp", "-o", "m.tflite"], "one of them must be given, but got none"),
        (["mlp", "--input-shape", "3", "-o", "m.tflite"], "--outputs: must be given if"),
        (["mlp", "--input-shape", "3", "--outputs", "2", "-o", "m.h5"], "must end in .circle"),
        (["mlp", "--input-shape", "3", "--outputs", "2", "-o", "no/m.tflite"], "no such file or"),
        (
            ["mlp", "--input-shape", "3", "--outputs", "1", "-o", "m.tflite"],
            "at least 2 with softm",
        ),
        (
            ["cnn", "--input-shape", "3", "--outputs", "2", "-o", "m.tflite"],
            "must be height, width",
        ),
        (
            ["mlp", "--input-shape", "3", "--outputs", "2", "--units", "4", "-o", "m.tflite"],
            "--units",
        ),
        (["mlp", "--like", "table.csv", "-o", "m.tflite"], "odt gen-datafile --source table.csv"),
        (["mlp", "--like", "raw.bin", "-o", "m.tflite"], "raw.bin: must have its JSON"),
        (["mlp", "--like", "none.bin", "-o", "m.tflite"], "none.bin: not found."),
        (["mlp", "--like", ".", "-o", "m.tflite"], "a folder must hold one file train.input…"),
        (["mlp", "--like", "two.npz", "-o", "m.tflite"], "must hold one array"),
        (["autoencoder", "--input-shape", "3", "--outputs", "2", "-o", "m.tflite"], "left out for"),
        (["mlp", "--like", "x.npy", "-o", "m.tflite"], "no targets"),
        (
            ["mlp", "--input-shape", "3", "--outputs", "2", "--normalize", "-o", "m.tflite"],
            "--normalize: must be given with --like",
        ),
    ],
)
def test_errors_are_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b,y\n1,2,3.5\n2,3,4.5\n")
    samples(3).tofile("raw.bin")
    np.save("x.npy", samples(3))
    np.savez("two.npz", a=samples(3), b=samples(4))
    result = new(*words)
    assert result.exit_code == 1, result.output
    assert message in result.output
    assert result.output.count("\n") == 1
    assert not list(tmp_path.glob("m.*"))


def test_standardized_data_need_no_normalization(tmp_path: Path) -> None:
    rows = "\n".join(f"{k},{k * 7 % 13},{k % 2}" for k in range(40))
    (tmp_path / "t.csv").write_text(f"a,b,y\n{rows}\n")
    words = ["gen-datafile", "--source", tmp_path / "t.csv", "--split", "train=1.0"]
    words += ["--scale", "standardize", "--out-dir", tmp_path / "d"]
    assert CliRunner().invoke(main, [str(w) for w in words]).exit_code == 0
    like = tmp_path / "d" / "train.input.bin"
    assert json.loads(Path(f"{like}.json").read_text())["classes"] == ["0", "1"]
    result = new("mlp", "--like", like, "-o", tmp_path / "m.tflite", "--normalize")
    assert "gen-datafile has standardized" in result.output
    made = [new("mlp", "--like", path, "-o", tmp_path / "m.tflite") for path in (like, like.parent)]
    assert made[0].exit_code == 0
    assert made[0].output.splitlines()[0] == made[1].output.splitlines()[0]
    assert f"--data {like.parent} " in made[1].output


def lstm_of(model: odt.Model, x: Array) -> Array:
    """The last hidden state of unrolled layers, by the formula, in float64."""
    for layer in [n[:-1] for n in model.parameters if n.startswith("lstm") and n.endswith("/w")]:
        w, b = (weights(model, layer + name).astype(np.float64) for name in "wb")
        h = c = np.zeros((len(x), len(b) // 4))
        r = weights(model, f"{layer}r") if x.shape[1] > 1 else np.zeros((len(b), len(b) // 4))
        made = []
        for t in range(x.shape[1]):
            i, f, g, o = np.split(x[:, t] @ w.T + h @ r.T + b, 4, axis=1)
            i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            made.append(h)
        x = np.stack(made, axis=1)
    return x[:, -1]


@pytest.mark.parametrize("steps", [1, 5])
def test_an_unrolled_lstm_has_operators_for_each_step(steps: int, tmp_path: Path) -> None:
    model = odt.new_model(
        "lstm",
        input_shape=(steps, 3),
        outputs=2,
        units=(4, 5),
        activation="linear",
        seed=1,
        unroll=True,
    )
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in {n.operator for n in model.nodes}
    model.save(tmp_path / "m.tflite")
    x = samples(steps, 3)
    last = lstm_of(model, x.astype(np.float64))
    wanted = last @ weights(model, "output/w").T + weights(model, "output/b")
    with odt.Trainer(model, loss="mean_squared_error") as trainer:
        np.testing.assert_allclose(trainer.predict(x), wanted, atol=1e-6)
    np.testing.assert_allclose(litert(tmp_path / "m.tflite", [x])[0], wanted, atol=1e-5)


def test_unroll_is_for_an_lstm() -> None:
    with pytest.raises(OptionError, match="`unroll=`: must be left out for the kind mlp"):
        odt.new_model("mlp", input_shape=(3,), outputs=2, unroll=True)
