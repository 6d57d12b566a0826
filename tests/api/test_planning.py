"""`odt.plan` and `odt.check` do in Python what `odt plan` and `odt check` do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.paths import GOLDEN, MODELS

import odt
from odt.cli.main import main
from odt.cli.output.spelling import spell
from odt.core.storage.free_memory import in_process_of

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
MNIST = GOLDEN / "mnist"


def printed(*words: object) -> str:
    """What a command prints."""
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stdout.rstrip("\n")


def untimed(text: str) -> str:
    """The text without what is measured."""
    text = re.sub(r" Takes .* measured here\.", "", text)
    return re.sub(r"The process takes about \d+ MB", "The process takes", text)


PLACES = ("ram", "disk")
LAST = ("--num-of-trainable-ops", "2", "--data-length", "100", "--cache-frozen")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {}),
        (("--memory-budget", "64MB"), {"memory_budget": "64MB"}),
        (
            (*LAST, "ram"),
            {"trainable": odt.last(2), "cache_frozen": "ram", "data_length": 100},
        ),
        (
            (*LAST, "disk", "--cache-dtype", "float16", "--frozen-int8"),
            {
                "trainable": odt.last(2),
                "cache_frozen": "disk",
                "cache_dtype": "float16",
                "data_length": 100,
                "frozen_int8": True,
            },
        ),
    ],
)
def test_a_plan_is_that_of_the_command(words: tuple[str, ...], options: dict[str, Any]) -> None:
    before = 56_000_000
    with in_process_of(before):
        forecast = odt.plan(RESNET, batch_size=8, **options)
        text = printed("plan", RESNET, "--batch-size", 8, "--calls", *words)
    assert untimed(f"{forecast.summary()}\n{forecast.calls()}") == untimed(text)
    assert forecast.process == before + forecast.peak
    limit = options.get("memory_budget")
    assert forecast.limit == (None if limit is None else 64_000_000)
    megabytes = f"{forecast.process / 1e6:.0f} MB"
    verdict = f"Fits: peak about {megabytes} of 64 MB." if limit else f"takes about {megabytes} at"
    assert verdict in str(forecast)


def test_a_limit_below_the_process_is_refused_in_a_line() -> None:
    with in_process_of(56_000_000), pytest.raises(odt.OptionError) as refused:
        odt.plan(RESNET, memory_budget="50MB")
    least = re.fullmatch(
        r"`memory_budget=`: must be at least ([\d.]+)MB to train in batches of 32, "
        r"of which Python and its modules take 56\.0MB, but got 50\.0MB",
        str(refused.value),
    )
    assert least
    with in_process_of(56_000_000):
        assert odt.plan(RESNET, memory_budget=f"{least[1]}MB").process <= float(least[1]) * 1e6


def test_a_cache_takes_its_samples() -> None:
    """The cached values are those before the last layer: 64 floats a sample."""
    options: dict[str, Any] = {"trainable": odt.last(2), "cache_frozen": "ram"}
    few, many = (odt.plan(RESNET, data_length=n, **options) for n in (10, 1010))
    assert many.cache - few.cache == 1000 * 64 * 4
    assert many.later == many.peak - many.frozen
    options["data_length"] = 1_000_000
    in_memory, on_disk = (odt.plan(RESNET, **{**options, "cache_frozen": c}) for c in PLACES)
    assert on_disk.cache < in_memory.cache / 10


def test_a_plan_counts_what_fit_takes(tmp_path: Path) -> None:
    builder = ModelBuilder("circle", seed=0)
    model = tmp_path / "m.circle"
    builder.write(model, builder.add_dense(builder.add_input((1, 6)), 4))
    options: dict[str, Any] = {"loss": "mean_squared_error", "batch_size": 4, "workers": 1}
    plain = odt.plan(model, **options)
    taught = odt.plan(
        model, teacher=odt.Teacher(str(model), temperature=1), data_length=50, **options
    )
    assert taught.cache - plain.cache == 50 * 4 * 4  # four floats a sample
    best = odt.plan(model, keep_best=True, **options)
    assert best.cache == plain.parameters == (6 * 4 + 4) * 4
    assert "best" in str(best)


def test_a_cache_needs_its_length() -> None:
    with pytest.raises(odt.OptionError, match="must be given with `data_length=`"):
        odt.plan(RESNET, cache_frozen="ram")


def test_a_check_is_the_command_s() -> None:
    data = (MNIST / "input.bin", MNIST / "expected.bin")
    shown: list[str] = []
    result = odt.check(
        MNIST / "model.circle",
        *data,
        batch_size=4,
        show=shown.append,
        loss="categorical_crossentropy",
    )
    words = ("--load-input", data[0], "--load-expected", data[1], "--batch-size", 4)
    text = printed("check", MNIST / "model.circle", *words, "--loss", "categorical-crossentropy")
    assert untimed(spell(str(result))) == untimed(text)
    assert "\n".join(shown) == str(result)
    assert len(shown) > 2
    assert result.trains
    assert len(result.trained) == 6
    assert f"arithmetic: {result.flops:,} FLOP a sample forward, {result.training_flops:,}" in text
    assert f"- total      = {result.nbytes:>13,} bytes" in text
    assert result.forecast is not None
    assert result.forecast.verdict in str(result)


def test_a_check_says_what_could_train(tmp_path: Path) -> None:
    builder = ModelBuilder("circle", seed=0)
    y = builder.add_dense(builder.add_input((1, 4)), 4)
    y = builder.add_operator("CUSTOM:Magic", (y,), (1, 4))
    builder.write(tmp_path / "m.circle", builder.add_dense(y, 3))
    result = odt.check(tmp_path / "m.circle")
    assert result.trains is False
    assert "CUSTOM:Magic" in result.findings[0]
    assert "`before=" in result.could_train
    assert spell(str(result)) == printed("check", tmp_path / "m.circle")


@pytest.mark.parametrize("samples", [1, 5])
def test_fewer_samples_than_a_batch_are_checked(samples: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(samples, 32, 32, 3)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[np.arange(samples)]
    assert odt.check(RESNET, x, y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    words = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    assert printed("check", RESNET, *words).endswith("\nThe model can be trained.")


def test_inputs_without_targets_are_not_checked() -> None:
    with pytest.raises(odt.DataError, match="y: must be given"):
        odt.check(RESNET, np.zeros((2, 32, 32, 3), np.float32))


def test_a_summary_is_that_of_the_command() -> None:
    model = odt.load_model(RESNET)
    assert spell(model.summary()) == printed("inspect", RESNET)
    chosen = model.summary(patterns="FULLY_CONNECTED", bias_only=True)
    words = ("--trainable", "FULLY_CONNECTED", "--bias-only")
    assert spell(chosen) == printed("inspect", RESNET, *words)
    assert "10 values in 1 tensor" in chosen
