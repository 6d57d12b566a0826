"""`frozen_int8`: the frozen layers of a float model compute int8."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.errors import OptionError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
LAST = odt.last(2)  # the dense layer
RNG = np.random.default_rng(1)
X = RNG.uniform(0, 255, (40, 32, 32, 3)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 40)]


def test_frozen_layers_compute_what_the_quantized_model_computes() -> None:
    with (
        odt.Trainer(RESNET, trainable=LAST) as t,
        odt.Trainer(RESNET, trainable=LAST, frozen_int8=X) as u,
    ):
        real, integers = t.predict(X), u.predict(X)
    difference = np.abs(real - integers).max()
    assert 0 < difference < 0.2
    quantized = odt.quantize(RESNET, X).model
    with odt.Trainer(quantized, trainable=odt.last(3)) as v:
        np.testing.assert_allclose(v.predict(X), integers, atol=0.05)


def test_the_float_file_keeps_its_frozen_weights(tmp_path: Path) -> None:
    path = tmp_path / "trained.tflite"
    with odt.Trainer(RESNET, trainable=LAST, frozen_int8=X, learning_rate=1e-3) as t:
        losses = t.fit(X, Y, epochs=3, seed=1).history["loss"]
        t.export(path)
    assert losses[-1] < losses[0]
    before, after = (read_model(str(p)).graph.tensors for p in (RESNET, path))
    changed = [
        a.name
        for a, b in zip(before, after, strict=True)
        if a.data is not None and not np.array_equal(a.data, np.asarray(b.data))
    ]
    assert len(changed) == 2  # weights and bias of the dense layer


def test_the_cache_keeps_integers() -> None:
    options = ("--num-of-trainable-ops", "2", "--cache-frozen", "--data-length", "100")
    done = CliRunner().invoke(main, ["plan", str(RESNET), *options, "--frozen-int8"])
    assert "100 samples × 64 bytes" in done.output, done.output
    done = CliRunner().invoke(main, ["plan", str(RESNET), *options])
    assert "100 samples × 256 bytes" in done.output, done.output
    done = CliRunner().invoke(main, ["plan", str(RESNET), *options[:2], "--frozen-int8", "--calls"])
    assert "INTEGER_CONV_2D (compiled)" in done.output, done.output


def test_integers_take_less_memory_whatever_the_data_are() -> None:
    options: dict[str, Any] = {"trainable": LAST, "workers": 1, "micro_batch": 4}
    arenas = odt.plan(RESNET, frozen_int8=X, **options).arenas
    assert arenas == odt.plan(RESNET, frozen_int8=np.ones_like(X), **options).arenas
    assert arenas < odt.plan(RESNET, **options).arenas / 2


def test_a_run_resumes_to_the_bit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy", "--seed", 1)
    common = (*data, "--shuffle", "--num-of-trainable-ops", 2, "--frozen-int8")

    def train(*options: object) -> None:
        done = CliRunner().invoke(main, ["train", str(RESNET), *map(str, (*common, *options))])
        assert done.exit_code == 0, done.output

    whole, half, end = (tmp_path / f"{n}.odt" for n in ("whole", "half", "end"))
    train("--epochs", 2, "--export-checkpoint", whole)
    train("--epochs", 1, "--export-checkpoint", half)
    train("--epochs", 2, "--checkpoint", half, "--export-checkpoint", end)
    assert whole.read_bytes() == end.read_bytes()


@pytest.mark.parametrize(
    ("model", "trainable", "message"),
    [
        (RESNET, None, "must come with operators on activations before the first one that trains"),
        (
            MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite",
            odt.last(3),
            "must come with a float model, but got a quantized one. Leave it out",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    model: Path, trainable: odt.Trainable | None, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        odt.Trainer(model, trainable=trainable, frozen_int8=X).session.build()


def test_other_frozen_weights_than_those_of_the_file_are_refused() -> None:
    with odt.Trainer(RESNET, trainable=LAST, frozen_int8=X) as t:
        graph = read_model(str(RESNET)).graph
        first = next(n for n in graph.nodes if n.op == "CONV_2D").inputs[1]
        data = graph.tensors[first].data
        assert data is not None
        with pytest.raises(OptionError, match="must come with the frozen weights of the model"):
            t.session.replace_frozen({first: data / 2})
