"""Training on cached outputs of the frozen part is training without a cache, up to rounding."""

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.frozen_networks import (
    RELU,
    branches,
    chain,
    convolutions,
    dead_reader,
    mixing,
    unrolled,
)
from support.networks import ArrayData, Net
from support.paths import MLP_SM, MODELS

from odt.cli.main import main
from odt.core.data.dataset import EpochOrder
from odt.core.formats.reader import read_model
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call
from odt.core.training.frozen_cache import CachePolicy, FrozenCache
from odt.core.training.metrics import fitting_metrics
from odt.core.training.trainer import Trainer
from odt.errors import OptionError, TrainingError
from odt.kernels.rows.opdef import Array, TensorSpec

TRAINING, SAMPLES, BATCH = 24, 32, 8
ALL, DISK = CachePolicy(SAMPLES), CachePolicy(SAMPLES, on_disk=True)
HALF = CachePolicy(SAMPLES, np.dtype(np.float16))
PARTS = (range(TRAINING), range(TRAINING, SAMPLES))
INFO = TrainingInfo(loss="mean_squared_error", optimizer="adam", batch_size=BATCH)
COMMAND = [
    *("train", MLP_SM / "model.circle", "--load-input", MLP_SM / "input.bin"),
    *("--load-expected", MLP_SM / "expected.bin", "--num-of-trainable-ops", 2, "--shuffle"),
    *("--batch-size", 8, "--validation-split", 0.3),
]


class Counting(ArrayData):
    """Counts the samples whose inputs are read."""

    count = 0

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        assert inputs
        assert not targets
        self.count += len(samples)
        super().read(samples, inputs, targets)


class Targets(ArrayData):
    """Gives no inputs."""

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        assert not inputs
        super().read(samples, inputs, targets)


class Ones(ArrayData):
    """As many samples as one likes."""

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        for a in (*inputs, *targets):
            a.fill(1)


PARTS_OF = (chain, convolutions, branches, mixing, unrolled, dead_reader)
NETWORKS = {f.__name__: f for f in PARTS_OF}


def arrays(kind: type[ArrayData]) -> ArrayData:
    rng = np.random.default_rng(3)
    x, t = rng.normal(size=(SAMPLES, 6)), rng.normal(size=(SAMPLES, 5))
    return kind([x.astype(np.float32)], [t.astype(np.float32)])


def cache_of(trainer: Trainer) -> FrozenCache:
    return trainer.frozen(arrays(Counting), arrays(Targets), PARTS)


def train(trainer: Trainer, data: object, epochs: int = 3) -> tuple[list[object], list[bytes]]:
    """Losses and metrics of training and validation; parameters and state, as bytes."""
    order = EpochOrder(range(TRAINING), shuffle=True, seed=5)
    found = trainer.train(data, order, epochs=epochs, validation=range(TRAINING, SAMPLES))  # type: ignore[arg-type]
    figures: list[object] = []
    for e in found:
        assert e.validation is not None
        figures += [e.training.loss, e.training.metrics, e.validation.loss, e.validation.metrics]
    kept = (trainer.parameters.tensors, *trainer.parameters.slots.values())
    return figures, [a.tobytes() for group in kept for a in group.values()]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(
    ("name", "micro_batch", "workers"),
    [
        (n, m, w)
        for n in NETWORKS
        for m, w in [(8, 1), (3, 1), (3, 2)]
        if n != "mixing" or m == BATCH
    ],
)
def test_a_cache_changes_no_bit(name: str, micro_batch: int, workers: int, on_disk: bool) -> None:
    graph, trainable = NETWORKS[name]()
    info = replace(INFO, trainable_ops=trainable)
    loss = "categorical_crossentropy"
    metrics = fitting_metrics(["accuracy"], loss, TensorSpec((3,), np.dtype(np.float32)))
    options = {"micro_batch": micro_batch, "workers": workers, "metrics": metrics}
    with Trainer(graph, info, **options) as trainer:  # type: ignore[arg-type]
        expected = train(trainer, arrays(ArrayData))
    with (
        Trainer(graph, info, cache=CachePolicy(SAMPLES, on_disk=on_disk), **options) as trainer,  # type: ignore[arg-type]
        cache_of(trainer) as cache,
    ):
        assert train(trainer, cache) == expected


def turned() -> tuple[Graph, tuple[int, ...]]:
    """TRANSPOSEs around what trains meet, and the loss reads what the last one makes."""
    net = Net()
    y = net.add("RESHAPE", (net.dense(net.input(1, 6), 5),), (1, 5, 1), new_shape=(1, 5, 1))
    y = net.add("MUL", (y, net.constant(np.arange(1, 4, dtype=np.float32))), (1, 5, 3))
    y = net.add("TRANSPOSE", (y, net.constant([0, 2, 1], np.int32)), (1, 3, 5))
    y = net.add("MUL", (y, net.weight(3, 1)), (1, 3, 5))
    y = net.add("TRANSPOSE", (y, net.constant([0, 2, 1], np.int32)), (1, 5, 3))
    return net.graph(net.add("SOFTMAX", (y,), (1, 5, 3), beta=1.0)), (4, 5, 6)


def test_a_loss_reads_a_transpose_behind_the_frozen_part() -> None:
    graph, trainable = turned()
    rng = np.random.default_rng(3)
    x, t = rng.normal(size=(8, 6)).astype(np.float32), np.zeros((8, 5, 3), np.float32)
    t[..., 1] = 1
    info = replace(INFO, trainable_ops=trainable, loss="categorical_crossentropy")
    with (
        Trainer(graph, info, cache=CachePolicy(8)) as trainer,
        trainer.frozen(ArrayData([x], [t]), Targets([x], [t]), (range(8),)) as cache,
    ):
        cached = trainer.step(cache, 8, update=False)
    with Trainer(graph, info) as trainer:
        assert trainer.step(ArrayData([x], [t]), 8, update=False) == cached


def test_the_frozen_part_is_computed_once_and_its_memory_given_back() -> None:
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    with Trainer(graph, info, cache=ALL) as trainer, cache_of(trainer) as cache:
        assert cache.nbytes == SAMPLES * 9 * 4
        assert cache.arena_nbytes > 0
        train(trainer, cache, epochs=1)
        assert isinstance(cache.data, Counting)
        assert cache.data.count == SAMPLES
        assert cache.arena_nbytes == 0
        train(trainer, cache, epochs=2)
        assert cache.data.count == SAMPLES


def test_memory_is_given_back_where_samples_are_left_over_too() -> None:
    """The last two fill no batch, so nobody asks for them."""
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    order = EpochOrder(range(18))
    with (
        Trainer(graph, info, cache=CachePolicy(18), micro_batch=8, workers=1) as trainer,
        trainer.frozen(arrays(Counting), arrays(Targets), (range(18),)) as cache,
    ):
        list(trainer.train(cache, order, epochs=1))
        assert cache.arena_nbytes > 0
        list(trainer.train(cache, order, epochs=3))
        assert isinstance(cache.data, Counting)
        assert (cache.data.count, cache.arena_nbytes) == (16, 0)


def test_the_plan_begins_where_the_frozen_part_ends() -> None:
    graph, trainable = chain()
    with Trainer(graph, replace(INFO, trainable_ops=trainable), cache=ALL) as trainer:
        calls = [s.label for s in trainer.plan.entries if isinstance(s, Call)]
        (given,) = (trainer.plan.values[name].spec for name in trainer.plan.inputs)
    assert [label for label in calls if "loss" not in label] == [
        *("2 FULLY_CONNECTED", "2 FULLY_CONNECTED d.w", "2 FULLY_CONNECTED d.b")
    ]
    assert given.shape[1:] == (9,)


def test_a_bias_trains_on_its_own_layer_s_input() -> None:
    """The cut is between operators: a layer with a trained bias belongs to the part that trains."""
    graph, _ = chain()
    info = replace(INFO, trainable_ops=(1,), trainable_tensors=(graph.nodes[1].inputs[2],))
    with Trainer(graph, info, cache=ALL) as trainer:
        assert [trainer.plan.values[n].tensor for n in trainer.plan.inputs] == [
            graph.nodes[1].inputs[0]
        ]


@pytest.mark.parametrize("trainable", [None, (0,), ()])
def test_a_model_without_a_frozen_part_is_refused(trainable: tuple[int, ...] | None) -> None:
    with pytest.raises(
        OptionError, match="`cache_frozen=`: some operators must train, and operators"
    ):
        Trainer(chain()[0], replace(INFO, trainable_ops=trainable), cache=ALL)


def test_half_precision_takes_half_the_room_and_is_near() -> None:
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    results = []
    for keep in (ALL, HALF):
        with Trainer(graph, info, cache=keep) as trainer, cache_of(trainer) as cache:
            results.append((cache.nbytes, train(trainer, cache)[0][-2]))
    (size, loss), (half_size, half_loss) = results
    assert half_size * 2 == size
    assert half_loss == pytest.approx(loss, rel=1e-3)
    assert half_loss != loss


def test_values_too_large_for_half_precision_are_refused() -> None:
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    with (
        Trainer(graph, info, cache=HALF) as trainer,
        cache_of(trainer) as cache,
    ):
        cache.data.inputs[0][...] *= 1e6  # type: ignore[attr-defined]
        with pytest.raises(TrainingError, match=r"`cache_dtype=.float16.`: .* within ±65504"):
            train(trainer, cache)


def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while it is used: the file has no name, so nothing can leave it behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    with Trainer(graph, info, cache=DISK) as trainer, cache_of(trainer) as cache:
        train(trainer, cache, epochs=1)
        assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """No other takes its place without a word, which might be in memory, or too small."""
    words = [*map(str, COMMAND), "--cache-frozen", "disk"]
    result = CliRunner().invoke(main, words, env={"TMPDIR": str(tmp_path / "no")})
    assert result.exit_code == 1
    assert f"--cache-frozen: {tmp_path}/no must have room for " in result.stderr
    assert result.stderr.endswith("no such file or directory. Set TMPDIR to another folder.\n")


def test_a_disk_that_is_full_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    graph, trainable = chain()
    info = replace(INFO, trainable_ops=trainable)
    message = r"`cache_frozen=`: .* must have room for 1,152 bytes, but got no space left"
    with (
        Trainer(graph, info, cache=DISK) as trainer,
        pytest.raises(OptionError, match=message),
    ):
        cache_of(trainer)


def wide() -> tuple[Graph, ArrayData, TrainingInfo]:
    """Products of a size at which BLAS rounds a row by its place among the others."""
    net, rng = Net(), np.random.default_rng(2)
    graph = net.graph(
        net.dense(net.dense(net.input(1, 784), 512, fused_activation_function=RELU), 3)
    )
    data = ArrayData(
        [rng.normal(size=(192, 784)).astype("f4")], [rng.normal(size=(192, 3)).astype("f4")]
    )
    return graph, data, replace(INFO, batch_size=64, trainable_ops=(1,))


def wide_run(epochs: Sequence[int], cut: bool, shuffle: bool) -> list[bytes]:
    """One trainer after the other, each to the end of an epoch, with a cache of its own."""
    graph, data, info = wide()
    state: list[Array] = []
    for k, epoch in enumerate(epochs):
        keep = CachePolicy(192) if cut else None
        with Trainer(graph, info, micro_batch=64, workers=1, cache=keep) as trainer:
            arrays = [*trainer.parameters.tensors.values()]
            arrays += [a for slot in trainer.parameters.slots.values() for a in slot.values()]
            for a, before in zip(arrays, state, strict=False):
                a[...] = before
            first = epochs[k - 1] + 1 if k else 1
            trainer.parameters.step = 3 * (first - 1)
            given = trainer.frozen(data, data, (range(192),)) if cut else data
            order = EpochOrder(range(192), shuffle, seed=1)
            list(trainer.train(given, order, epochs=epoch, start=first))
            state = [a.copy() for a in arrays]
    return [a.tobytes() for a in state]


def test_going_on_after_a_break_has_the_bits_of_training_through() -> None:
    """Under shuffling too, where the second half sees samples first in other places."""
    assert wide_run([2], True, True) == wide_run([1, 2], True, True)


@pytest.mark.parametrize("shuffle", [False, True])
def test_training_differs_from_that_without_a_cache_by_rounding(shuffle: bool) -> None:
    pairs = zip(wide_run([2], True, shuffle), wide_run([2], False, shuffle), strict=True)
    for cached, plain in pairs:
        a, b = np.frombuffer(cached, np.float32), np.frombuffer(plain, np.float32)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "last"),
    [("mlperf-tiny-vww-mobilenetv1-0.25-96", 3), ("mlperf-tiny-resnet8-cifar10", 2)],
)
def test_the_head_of_a_real_model_is_all_that_is_left(name: str, last: int) -> None:
    """Of arithmetic less than a hundredth, and the same bits in the order of the file."""
    graph = read_model(str(MODELS / f"{name}.tflite")).graph
    count, rng = len(graph.nodes), np.random.default_rng(6)
    x, y = (graph.tensors[i].spec.shape[1:] for i in (*graph.inputs, *graph.outputs))
    data = ArrayData(
        [rng.normal(size=(8, *x)).astype("f4")],
        [np.eye(y[0], dtype="f4")[rng.integers(0, y[0], 8)]],
    )
    info = TrainingInfo(batch_size=4, trainable_ops=tuple(range(count - last, count)))
    flops, found = [], []
    for keep in (None, CachePolicy(8)):
        with Trainer(graph, info, micro_batch=2, workers=2, cache=keep) as trainer:
            flops.append(sum(s.flops for s in trainer.plan.entries if isinstance(s, Call)))
            given = trainer.frozen(data, data, (range(8),)) if keep else data
            list(trainer.train(given, EpochOrder(range(8)), epochs=3))
            found.append([a.tobytes() for a in trainer.parameters.tensors.values()])
    assert flops[1] < flops[0] / 100
    assert found[0] == found[1]


def odt(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in (*COMMAND, *arguments)])


def test_the_command_with_a_cache_exports_the_same_bytes(tmp_path: Path) -> None:
    """In the order of the file those without a cache, and through a break those of its own."""
    plain, same, cached, rest = (tmp_path / name for name in ("plain", "same", "cached", "rest"))
    stop = ("--export-checkpoint", tmp_path / "c.odt", "--epochs", 1)
    go_on = ("--checkpoint", tmp_path / "c.odt", "--epochs", 3)
    for arguments in (
        ("--no-shuffle", "--export-circle", plain),
        ("--no-shuffle", "--export-circle", same, "--cache-frozen"),
        ("--epochs", 3, "--export-circle", cached, "--cache-frozen"),
        (*stop, "--cache-frozen", "disk"),
        (*go_on, "--export-circle", rest, "--cache-frozen", "ram"),
    ):
        result = odt(*arguments)
        assert result.exit_code == 0, result.output
    assert plain.read_bytes() == same.read_bytes()
    assert cached.read_bytes() == rest.read_bytes()


def test_the_command_shows_the_size_of_the_cache() -> None:
    result = odt("--epochs", 1, "--cache-frozen", "--cache-dtype", "float16")
    assert result.exit_code == 0, result.output
    assert "\nfrozen layers: cache of 96 samples × " in result.stdout
    result = odt("--epochs", 1, "--cache-dtype", "float16")
    assert result.exit_code == 1
    assert "--cache-dtype: must come with --cache-frozen" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_of_a_cache_on_disk_are_given_back() -> None:
    """24 samples of 1 MB each; within a budget 1 MiB stays mapped, and what one step takes."""
    net = Net()
    x = net.add("TANH", [net.input(1, 250_000)], (1, 250_000))
    graph = net.graph(net.add("MUL", (x, net.weight(1, 250_000)), (1, 250_000)))
    info = replace(INFO, batch_size=4)
    data = Ones((), ())

    def mapped() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return sum(int(n.split()[1]) for n in lines if n.startswith(("RssFile", "RssShmem"))) * 1024

    keep = CachePolicy(24, on_disk=True)
    with Trainer(graph, info, cache=keep, budget=10**9, micro_batch=1, workers=1) as trainer:
        before = mapped()
        with trainer.frozen(data, data, (range(24),)) as cache:
            list(trainer.train(cache, EpochOrder(range(24)), epochs=2))
            assert mapped() - before < 3_500_000
