"""`odt plan` against the memory of a trainer."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from PIL import Image
from support.paths import GOLDEN

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.arena_usage import arena_usage
from odt.core.training.trainer import Trainer
from odt.kernels.native.library import is_available

MNIST = GOLDEN / "mnist" / "model.circle"
LOSS = ("--loss", "categorical-crossentropy")


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def rows(text: str) -> dict[str, int]:
    """First word of each line of the first table → its bytes."""
    table = text.partition("memory saved by")[0]
    lines = re.findall(r"^(\w+) +([\d,]+) bytes", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in lines}


@pytest.mark.parametrize(
    ("optimizer", "micro_batch", "workers"),
    [
        ("adam", 32, 1),
        ("sgd", 32, 1),
        ("adam", 5, 2),
        ("sgd", 1, 1),
        ("adam8bit", 8, 2),
        ("adafactor", 32, 1),
    ],
)
def test_the_report_agrees_with_the_memory_of_a_trainer(
    optimizer: str, micro_batch: int, workers: int
) -> None:
    batching = ("--micro-batch", micro_batch, "--workers", workers)
    result = plan(MNIST, *LOSS, "--batch-size", 32, "--optimizer", optimizer, *batching)
    assert result.exit_code == 0, result.output
    printed = rows(result.stdout)
    graph = read_model(str(MNIST)).graph
    info = TrainingInfo(loss="categorical_crossentropy", optimizer=optimizer, batch_size=32)
    with Trainer(graph, info, micro_batch=micro_batch, workers=workers) as trainer:
        tensors = trainer.parameters.tensors.values()
        assert printed["parameters"] == sum(a.nbytes for a in tensors)
        assert printed["optimizer"] == sum(
            a.nbytes for slot in trainer.parameters.slots.values() for a in slot.values()
        )
        assert printed["arenas"] == trainer.runtime.arena_nbytes
        assert printed["gradients"] == trainer.memory().gradients
    assert (printed["gradients"] == 0) == (micro_batch == 32)
    parts = printed.keys() - {"peak", "process"}
    assert printed["peak"] == sum(printed[name] for name in parts)


def test_a_model_for_one_sample_only_is_planned(tmp_path: Path) -> None:
    """Its second output is the same for all samples, so no plan holds for several of them."""
    builder = ModelBuilder("circle")
    y = builder.add_dense(builder.add_input((1, 6)), 4)
    builder.write(tmp_path / "m.circle", y, builder.add_constant([[1.0, 2.0]]))
    result = plan(tmp_path / "m.circle", "--loss", "mean-squared-error", "--batch-size", 8)
    assert result.exit_code == 0, result.output
    assert "not split: the model's shapes are only for one sample" in result.stdout
    assert rows(result.stdout)["peak"] > 0


def test_the_fullest_moment_is_listed() -> None:
    """The first convolution's output, in 32 × 26 × 26 × 32 floats, is alive then."""
    text = plan(MNIST, *LOSS, "--batch-size", 32, "--micro-batch", 32, "--workers", 1).stdout
    assert "peak of the arena in the backward phase" in text
    assert re.search(rf"^conv1 +{32 * 26 * 26 * 32 * 4:,} +\(32, 26, 26, 32\)", text, re.MULTILINE)


def test_frozen_layers_need_no_memory() -> None:
    batching = ("--micro-batch", 8, "--workers", 1)
    everything = rows(plan(MNIST, *LOSS, *batching).stdout)
    last = rows(plan(MNIST, *LOSS, *batching, "--num-of-trainable-ops", 1).stdout)
    assert last["parameters"] < everything["parameters"]
    assert last["arenas"] < 0.7 * everything["arenas"]


def test_a_model_that_cannot_train_is_refused_in_a_line() -> None:
    result = plan(MNIST)
    assert result.exit_code == 1
    assert "--loss: must be given" in result.stderr


@pytest.mark.usefixtures("training_alone")
def test_savings_add_up() -> None:
    """The memory without reuse, less what each way saves, is the size of the arenas."""
    batching = ("--micro-batch", 4, "--workers", 2)
    usual = plan(MNIST, *LOSS, *batching).stdout
    less = plan(MNIST, *LOSS, *batching, "--memory-budget", rows(usual)["peak"] - 100_000).stdout
    (without_reuse,) = re.findall(r"([\d,]+) bytes without reuse", usual)
    for text, ways in ((usual, 2), (less, 3)):
        saved = re.findall(
            r"^(reuse|in place|compression|recomputation) +([\d,]+) bytes", text, re.MULTILINE
        )
        assert len(saved) == ways
        numbers = [int(n.replace(",", "")) for n in (without_reuse, *(n for _, n in saved))]
        assert numbers[0] - sum(numbers[1:]) == rows(text)["arenas"]


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
def test_blocks_of_gradients_are_counted_once(tmp_path: Path) -> None:
    """The gradient of 512 × 512 weights exists in blocks only, in tables and calls."""
    builder = ModelBuilder("circle")
    y = builder.add_dense(builder.add_dense(builder.add_input((1, 512)), 512), 8)
    builder.write(tmp_path / "m.circle", y)
    batching = ("--batch-size", 4, "--micro-batch", 4, "--workers", 1)
    model = (tmp_path / "m.circle", "--loss", "mean-squared-error", *batching)
    text = plan(*model, "--calls", "--png", tmp_path / "m.png").stdout
    assert "in blocks by 0 FULLY_CONNECTED d.w" in text
    assert rows(text)["arenas"] < 512 * 512 * 4 / 2
    (without_reuse,) = re.findall(r"([\d,]+) bytes without reuse", text)
    saved = re.findall(r"^(?:reuse|in place|blocks) +([\d,]+) bytes", text, re.MULTILINE)
    first, *numbers = (int(n.replace(",", "")) for n in (without_reuse, *saved))
    assert first - sum(numbers) == rows(text)["arenas"]


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "memory.png"
    result = plan(MNIST, *LOSS, "--png", path)
    assert result.exit_code == 0, result.output
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300


def test_matplotlib_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = plan(MNIST, *LOSS, "--png", tmp_path / "memory.png")
    assert result.exit_code == 1
    assert "pip install 'odt[plot]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_fullest_step_of_the_timeline_fills_the_arena() -> None:
    graph = read_model(str(MNIST)).graph
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=16)
    with Trainer(graph, info, micro_batch=8, workers=2) as trainer:
        kinds = arena_usage(trainer.plan, 2)
        most = max(map(sum, zip(*kinds.values(), strict=True)))
        assert 0.95 * trainer.runtime.arena_nbytes < most <= trainer.runtime.arena_nbytes
    assert all(max(numbers) > 0 for numbers in kinds.values())
