"""`odt plan` says what training then takes."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odt.cli.main import main
from odt.core.reader import read_model
from odt.core.trainer import Trainer
from odt.core.training_info import TrainingInfo

HERE = Path(__file__).parent
MNIST = HERE / "golden" / "mnist" / "model.circle"
LOSS = ("--loss", "categorical-crossentropy")


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def rows(text: str) -> dict[str, int]:
    """First word of each line → its bytes."""
    found = re.findall(r"^(\w+) +([\d,]+) bytes", text, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in found}


@pytest.mark.parametrize(
    ("optimizer", "micro_batch", "workers"),
    [("adam", 32, 1), ("sgd", 32, 1), ("adam", 5, 2), ("sgd", 1, 1)],
)
def test_it_says_what_a_trainer_then_holds(optimizer: str, micro_batch: int, workers: int) -> None:
    cut = ("--micro-batch", micro_batch, "--workers", workers)
    result = plan(MNIST, *LOSS, "--batch-size", 32, "--optimizer", optimizer, *cut)
    assert result.exit_code == 0, result.output
    said = rows(result.stdout)
    graph = read_model(str(MNIST)).graph
    info = TrainingInfo(loss="categorical_crossentropy", optimizer=optimizer, batch_size=32)
    with Trainer(graph, info, micro_batch=micro_batch, workers=workers) as trainer:
        tensors = trainer.parameters.tensors.values()
        assert said["parameters"] == sum(a.nbytes for a in tensors)
        assert said["optimizer"] == sum(
            a.nbytes for slot in trainer.parameters.slots.values() for a in slot.values()
        )
        assert said["arenas"] == trainer.runtime.arena_nbytes
        assert said["gradients"] == trainer.memory().gradients
    assert (said["gradients"] == 0) == (micro_batch == 32)
    assert said["peak"] == sum(n for name, n in said.items() if name != "peak")


def test_the_fullest_moment_is_listed() -> None:
    """The first convolution's output, in 32 × 26 × 26 × 32 floats, is alive then."""
    text = plan(MNIST, *LOSS, "--batch-size", 32, "--micro-batch", 32, "--workers", 1).stdout
    assert "most is alive in the backward phase" in text
    assert re.search(rf"^conv1 +{32 * 26 * 26 * 32 * 4:,} +\(32, 26, 26, 32\)", text, re.MULTILINE)


def test_what_does_not_train_needs_no_memory() -> None:
    cut = ("--micro-batch", 8, "--workers", 1)
    everything = rows(plan(MNIST, *LOSS, *cut).stdout)
    last = rows(plan(MNIST, *LOSS, *cut, "--num-of-trainable-ops", 1).stdout)
    assert last["parameters"] < everything["parameters"]
    assert last["arenas"] < 0.7 * everything["arenas"]


def test_a_model_that_cannot_train_is_refused_in_a_line() -> None:
    result = plan(MNIST)
    assert result.exit_code == 1
    assert "--loss: must be given" in result.stderr
