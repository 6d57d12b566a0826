"""`--memory-budget`: training keeps to it, or says what it takes."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.growth import start_nbytes, takes_as_predicted
from support.networks import ArrayData
from support.paths import GOLDEN, MODELS

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.errors import OptionError

pytestmark = pytest.mark.usefixtures("training_alone")

MNIST = GOLDEN / "mnist"
LOSS = ("--loss", "categorical-crossentropy")
BATCH = 32


def command(name: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, [name, str(MNIST / "model.circle"), *map(str, arguments)])


def trainer(budget: int | None, **options: int) -> Trainer:
    graph = read_model(str(MNIST / "model.circle")).graph
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=BATCH)
    return Trainer(graph, info, budget=budget, **options)  # type: ignore[arg-type]


def smallest() -> int:
    """What the refusal of one byte names."""
    with pytest.raises(OptionError, match="`memory_budget=`: must be at least") as refused:
        trainer(1)
    found = re.search(r"at least ([\d.]+)MB", str(refused.value))
    assert found
    return round(float(found[1]) * 1e6)


def data() -> ArrayData:
    rng = np.random.default_rng(0)
    x = rng.random((BATCH, 28, 28, 1), np.float32)
    return ArrayData([x], [np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)]])


@pytest.mark.parametrize(
    ("budget", "text"), [(10, "10B"), (99_999, "99999B"), (100_000, "0.1MB"), (199_999, "0.1MB")]
)
def test_a_budget_that_is_too_small_is_quoted_as_given(budget: int, text: str) -> None:
    with pytest.raises(OptionError, match=f"must be at least .*, but got {text}$"):
        trainer(budget)


def test_training_takes_less_than_its_budget_and_what_is_refused_is_the_least() -> None:
    least = smallest()
    for factor in (1.0, 1.3, 2.0, 4.0, 10.0):
        budget = int(least * factor)
        with trainer(budget) as t:
            assert t.memory().total <= budget
            assert np.isfinite(t.step(data(), BATCH))
    with pytest.raises(OptionError):
        trainer(int(least * 0.9))


def test_a_budget_changes_nothing_where_all_fits() -> None:
    with trainer(None) as usual, trainer(10**9) as t:
        assert t.runtime.schedule == usual.runtime.schedule


@pytest.mark.parametrize("name", ["mlperf-tiny-kws-dscnn-hybrid", "mlperf-tiny-resnet8-cifar10"])
def test_float_values_of_weights_stored_in_another_type_are_counted(name: str) -> None:
    """They exist besides the copies that train; float32 weights are mapped."""
    path = MODELS / f"{name}.tflite"
    dequantized = dequantize_weights(read_model(path))
    values = sum(dequantized.graph.tensors[i].spec.nbytes for i in dequantized.stored)
    result = CliRunner().invoke(main, ["plan", str(path), "--batch-size", "4"])
    assert result.exit_code == 0, result.output
    rows = dict(re.findall(r"^(\w+) +([\d,]+) bytes", result.output, re.MULTILINE))
    sizes = {row: int(number.replace(",", "")) for row, number in rows.items()}
    assert sizes.get("dequantized", 0) == values
    others = ("optimizer", "gradients", "arenas", "constants", "data", "other")
    assert sizes["peak"] >= values + sizes["parameters"] + sum(map(sizes.__getitem__, others))


def test_a_given_micro_batch_is_kept() -> None:
    with trainer(smallest() * 2, micro_batch=3) as t:
        assert t.runtime.schedule.micro_batch == 3
    with pytest.raises(OptionError, match="`memory_budget=`: must be at least"):
        trainer(smallest(), micro_batch=BATCH)


def test_the_commands_take_it(tmp_path: Path) -> None:
    budget = ("--memory-budget", f"{smallest() * 2}", "--batch-size", BATCH)
    planned = command("plan", *LOSS, *budget)
    assert planned.exit_code == 0, planned.output
    files = ("--load-input", MNIST / "input.bin", "--load-expected", MNIST / "expected.bin")
    trained = command("train", *LOSS, *budget, *files, "--epochs", 1)
    assert trained.exit_code == 0, trained.output
    said = re.search(r"predicted peak: ([\d,]+) bytes", trained.stdout)
    assert said
    assert re.search(rf"^peak +{said[1]} bytes", planned.stdout, re.MULTILINE)
    refused = command("train", *LOSS, *files, "--memory-budget", "1kB")
    assert refused.exit_code == 1
    assert "--memory-budget: must be at least" in refused.stderr


def resnet(budget: int | None) -> Trainer:
    graph = read_model(str(MODELS / "mlperf-tiny-resnet8-cifar10.tflite")).graph
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=32)
    return Trainer(graph, info, budget=budget, micro_batch=16, workers=1)


def test_activations_are_computed_again_where_that_makes_it_fit() -> None:
    """The numbers are those of the usual plan, bit for bit."""
    rng = np.random.default_rng(0)
    x = rng.random((BATCH, 32, 32, 3), np.float32)
    samples = ArrayData([x], [np.eye(10, dtype=np.float32)[np.arange(BATCH) % 10]])
    with resnet(None) as usual:
        arena = usual.memory().arena
        losses = [usual.step(samples, BATCH) for _ in range(3)]
    with resnet(10**9) as t:
        assert t.predicted is not None
        room = t.predicted - arena // 8
    with resnet(room) as t:
        assert t.memory().arena <= arena - arena // 8
        assert any("recomputed" in line for line in str(t.plan).splitlines())
        assert [t.step(samples, BATCH) for _ in range(3)] == losses


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("more", [5, 10, 100])
def test_the_process_takes_what_was_predicted(more: int) -> None:
    """Within 4 MB, with a budget of some megabytes above a process that has only imported."""
    budget = start_nbytes() + more * 10**6
    files = ("--load-input", MNIST / "input.bin", "--load-expected", MNIST / "expected.bin")
    model = (MNIST / "model.circle", *LOSS, "--batch-size", 64, "--epochs", 2)
    options = (*model, *files, "--memory-budget", budget)

    def predicted(text: str) -> int:
        (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
        return int(said.replace(",", ""))

    assert takes_as_predicted(options, predicted, tolerance=0.05)


@pytest.mark.parametrize(
    "name", ["mlperf-tiny-vww-mobilenetv1-0.25-96", "mlperf-tiny-resnet8-cifar10", "mtcnn-rnet"]
)
def test_the_smallest_budget_that_is_named_is_met(name: str) -> None:
    model = (str(MODELS / f"{name}.tflite"), "--loss", "mean-squared-error")
    options = ("--batch-size", "16", "--memory-budget")
    refused = CliRunner().invoke(main, ["plan", *model, *options, "1kB"])
    (least,) = re.findall(r"at least ([\d.]+MB)", refused.stderr)
    assert CliRunner().invoke(main, ["plan", *model, *options, least]).exit_code == 0
    less = f"{float(least[:-2]) - 0.2:.1f}MB"
    assert CliRunner().invoke(main, ["plan", *model, *options, less]).exit_code == 1


@pytest.mark.parametrize("budget", ["1kB", "2MB", "1GB"])
@pytest.mark.parametrize("cut", [(4, 4, 2), (4, 3, 4), (1, None, 2), (4, None, 9)])
def test_more_workers_than_parts_take_a_budget(
    budget: str, cut: tuple[int, int | None, int]
) -> None:
    """As without a budget, there are no more workers than parts."""
    batch, micro_batch, workers = cut
    given = ["--micro-batch", micro_batch] if micro_batch else []
    given += ["--batch-size", batch, "--workers", workers, "--memory-budget", budget]
    result = command("plan", *LOSS, *given)
    if budget == "1GB":
        assert result.exit_code == 0, result.output
    else:
        assert result.exit_code == 1
        assert "--memory-budget: must be at least" in result.stderr
