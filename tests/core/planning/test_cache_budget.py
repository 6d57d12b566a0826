"""A memory budget and the frozen part's cache know of each other."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.growth import start_nbytes, takes_as_predicted
from support.networks import ArrayData
from support.paths import MODELS

from odt.cli.main import main
from odt.core.data.dataset import EpochOrder
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.schedule import CACHE, available_cores
from odt.core.training.frozen_cache import CachePolicy
from odt.core.training.trainer import Trainer
from odt.errors import OptionError
from odt.kernels.native.library import is_available

pytestmark = pytest.mark.usefixtures("training_alone")


def head_of(budget: int | None, samples: int, micro_batch: int | None = None) -> Trainer:
    """The last layer of a network of 31 operators, in batches of 16; of a sample 1 KiB is kept."""
    graph = read_model(str(MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite")).graph
    count = len(graph.nodes)
    info = TrainingInfo(batch_size=16, trainable_ops=tuple(range(count - 3, count)))
    return Trainer(graph, info, cache=CachePolicy(samples), budget=budget, micro_batch=micro_batch)


def images(samples: int) -> ArrayData:
    rng = np.random.default_rng(7)
    x = rng.random((samples, 96, 96, 3), np.float32)
    return ArrayData([x], [np.eye(2, dtype=np.float32)[np.arange(samples) % 2]])


def test_a_budget_that_another_schedule_meets_is_met_beside_a_cache() -> None:
    """The whole network's arenas count nowhere, the frozen part's do."""
    data, reserve = images(32), 32 * 256 * 4
    with head_of(10**9, 32) as usual:
        assert usual.predicted is not None
        with usual.frozen(data, data, (range(32),)) as cache:
            assert cache.nbytes == reserve
            less = usual.predicted - cache.arena_nbytes // 3
    with head_of(less, 32) as trainer, trainer.frozen(data, data, (range(32),)) as cache:
        assert trainer.predicted is not None
        assert trainer.predicted <= less
        assert trainer.runtime.schedule != usual.runtime.schedule
        assert trainer.memory().total + cache.arena_nbytes + reserve <= trainer.predicted
        list(trainer.train(cache, EpochOrder(range(32)), epochs=2))


def test_the_smallest_budget_beside_a_cache_is_named_and_met() -> None:
    """A way out is named only where it leads out: where the rest would fit."""
    samples = 10**8 // 1024
    with pytest.raises(OptionError, match=r"with a cache of 100.0MB, but got 1.0MB$") as refused:
        head_of(10**6, samples)
    (least,) = re.findall(r"at least ([\d.]+)MB", str(refused.value))
    head_of(round(float(least) * 1e6), samples).close()
    with pytest.raises(OptionError, match=r'MB\. Keep less: `cache_frozen="disk"`'):
        head_of(round(float(least) * 1e6) - 10**6, samples)


def test_a_budget_that_fits_changes_nothing() -> None:
    with head_of(None, 32) as without, head_of(10**9, 32) as within:
        assert without.runtime.schedule == within.runtime.schedule
        assert without.plan.entries == within.plan.entries


@pytest.mark.skipif(not is_available(), reason="NumPy's columns of a sample exceed the limit")
def test_each_part_is_cut_by_its_own_measure() -> None:
    """The head takes the batch as a whole; of the network before it that would be 16 arenas."""
    data = images(32)
    with head_of(None, 32) as usual, usual.frozen(data, data, (range(32),)) as cache:
        chosen = usual.runtime.schedule
        assert (chosen.micro_batch, chosen.workers) == (16, 1)
        assert chosen.blas_threads == available_cores()
        assert cache.arena_nbytes <= CACHE
    with head_of(None, 32, micro_batch=1) as one, one.frozen(data, data, (range(32),)) as cache:
        assert cache.arena_nbytes <= CACHE
        assert one.runtime.schedule.micro_batch == 1


def files(folder: Path, samples: int) -> tuple[object, ...]:
    """Options of a command that trains the last 24 operators on images in files."""
    data = images(samples)
    for name, values in (("x.npy", data.inputs[0]), ("t.npy", data.targets[0])):
        np.save(folder / name, values)
    model = (MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite", "--num-of-trainable-ops", 24)
    given = ("--load-input", folder / "x.npy", "--load-expected", folder / "t.npy")
    return *model, *given, "--batch-size", 16, "--epochs", 2


def predicted(text: str) -> int:
    (said,) = re.findall(r"predicted peak: ([\d,]+) bytes", text)
    return int(said.replace(",", ""))


def kept(text: str) -> int:
    (said,) = re.findall(r"= ([\d,]+) bytes (?:in memory|on disk);", text)
    return int(said.replace(",", ""))


A_SAMPLE = 48 * 48 * 8 * 4  # bytes, of the tensor at the cut
PAGES = 2**20


def test_the_command_counts_its_cache(tmp_path: Path) -> None:
    """All of what is in memory; of what is on disk the pages that are mapped, and a batch."""
    options = (*files(tmp_path, 48), "--validation-split", 0.5, "--memory-budget", "1GB")
    found = {}
    for way in (("ram",), ("disk",), ("ram", "--cache-dtype", "float16")):
        result = CliRunner().invoke(main, ["train", *map(str, options), "--cache-frozen", *way])
        assert result.exit_code == 0, result.output
        found[way] = predicted(result.stdout), kept(result.stdout)
    (ram, nbytes), (disk, same), (half, less) = found.values()
    assert nbytes == same == 2 * less == 48 * A_SAMPLE
    assert ram - disk == nbytes - PAGES - 16 * A_SAMPLE
    assert ram - half == less


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("where", "more"), [("ram", 32), ("disk", 20)])
def test_the_process_takes_what_was_predicted(tmp_path: Path, where: str, more: int) -> None:
    """Within 4 MB, with a budget of some megabytes above a process that has only imported."""
    budget = start_nbytes() + more * 10**6
    options = (*files(tmp_path, 192), "--memory-budget", budget, "--cache-frozen", where)

    def checked(text: str) -> int:
        assert kept(text) == 192 * A_SAMPLE
        assert predicted(text) <= budget
        return predicted(text)

    assert takes_as_predicted(options, checked, tolerance=0.1)


def rows(text: str) -> dict[str, int]:
    """First word of each line of the first table → its bytes."""
    found = re.findall(
        r"^(\w+) +([\d,]+) bytes", text.partition("memory saved by")[0], re.MULTILINE
    )
    return {name: int(number.replace(",", "")) for name, number in found}


@pytest.mark.parametrize("where", ["ram", "disk"])
@pytest.mark.parametrize("budget", ["1GB", "16MB"])
def test_a_plan_agrees_with_the_command(tmp_path: Path, where: str, budget: str) -> None:
    """In the first epoch, and in later ones, when the frozen part has been computed."""
    model, last, n, *given = map(str, files(tmp_path, 64))
    options = ("--memory-budget", budget, "--cache-frozen", where)
    trained = CliRunner().invoke(main, ["train", model, last, n, *given, *options])
    assert trained.exit_code == 0, trained.output
    line = ["plan", model, last, n, "--batch-size", "16", *options, "--data-length", "64"]
    planned = CliRunner().invoke(main, line)
    assert planned.exit_code == 0, planned.output
    said = rows(planned.stdout)
    assert said["peak"] == predicted(trained.stdout)
    assert said["peak"] == sum(
        b for name, b in said.items() if name not in ("peak", "later", "process")
    )
    assert said["later"] == said["peak"] - said["frozen"]
    assert f"{said['frozen']:,} bytes of arenas until it is full" in trained.stdout
    assert f"64 samples × {A_SAMPLE:,} bytes = {64 * A_SAMPLE:,} bytes" in planned.stdout
    assert said["cache"] == (64 * A_SAMPLE if where == "ram" else PAGES + 16 * A_SAMPLE)


def test_a_plan_wants_the_number_of_samples() -> None:
    """Nothing else says how large the cache will be."""
    model = str(MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite")
    result = CliRunner().invoke(main, ["plan", model, "--cache-frozen"])
    assert result.exit_code == 1
    assert "--cache-frozen: must be given with --data-length" in result.stderr
