"""Chosen output channels train as in dense training, and nothing else of a filter moves."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.networks import ArrayData, InOrder, Net
from support.paths import GOLDEN

from odt.cli.main import main
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call
from odt.core.recipe.selection import Selection, choose_channels, select
from odt.core.recipe.sparse_filters import FILTERS, strongest
from odt.core.training.trainer import Trainer
from odt.errors import OptionError
from odt.kernels.families.output_channels import of_channels
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import Array, Kernel, TensorSpec

INFO = TrainingInfo(loss="mean_squared_error", optimizer="adam", batch_size=8)


def dense() -> Graph:
    """Two layers; the outputs of the last one depend on one row of its filter each."""
    net = Net()
    hidden = net.add("TANH", [net.dense(net.input(1, 12), 9)], (1, 9))
    return net.graph(net.dense(hidden, 8))


def convolution(kernel: int = 3, stride: int = 1) -> Graph:
    net = Net()
    x = net.add("RESHAPE", (net.input(1, 12), net.constant([-1, 2, 3, 2], np.int32)), (1, 2, 3, 2))
    options = {"padding": 0, "stride_w": stride, "stride_h": stride}
    size = (1, -(-2 // stride), -(-3 // stride), 8)
    y = net.add("CONV_2D", (x, net.weight(8, kernel, kernel, 2), net.weight(8)), size, **options)
    mean = net.add("MEAN", (y, net.constant([1, 2], np.int32)), (1, 8), keep_dims=False)
    return net.graph(mean)


def tied() -> Graph:
    """Two layers share their filter: contributions add up."""
    net = Net()
    x, w = net.dense(net.input(1, 12), 8), net.weight(8, 8)
    y = net.add("TANH", [net.add("FULLY_CONNECTED", (x, w), (1, 8))], (1, 8))
    return net.graph(net.add("FULLY_CONNECTED", (y, w), (1, 8)))


NETWORKS = {
    "dense": dense(),
    "convolution": convolution(),
    "strided": convolution(stride=2),
    "pointwise": convolution(kernel=1),
    "tied": tied(),
}


def arrays(samples: int) -> ArrayData:
    rng = np.random.default_rng(4)
    x, t = rng.normal(size=(samples, 12)), rng.normal(size=(samples, 8))
    return ArrayData([x.astype(np.float32)], [t.astype(np.float32)])


def filter_of(graph: Graph) -> int:
    return next(n.inputs[1] for n in reversed(graph.nodes) if n.op in FILTERS)


def train(graph: Graph, info: TrainingInfo, steps: int, **options: int) -> dict[int, Array]:
    with Trainer(graph, info, **options) as trainer:  # type: ignore[arg-type]
        list(trainer.train(arrays(8 * steps), InOrder(8 * steps), epochs=1))
        return {i: a.copy() for i, a in trainer.parameters.tensors.items()}


def sparse(graph: Graph, share: float, info: TrainingInfo = INFO) -> TrainingInfo:
    name = graph.tensors[filter_of(graph)].name
    return choose_channels(LoweredGraphs(graph), info, [(name, share)])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_step_moves_the_chosen_channels_as_dense_training_does(
    name: str, optimizer: str
) -> None:
    graph, info = NETWORKS[name], replace(INFO, optimizer=optimizer)
    w, chosen = filter_of(graph), sparse(graph, 0.25, info)
    ((found, channels),) = chosen.sparse
    assert found == w
    assert len(channels) == 2
    before, expected = graph.tensors[w].data, train(graph, info, 1)
    assert before is not None
    after = train(graph, chosen, 1)
    still = np.setdiff1d(np.arange(8), channels)
    np.testing.assert_array_equal(after[w][still], before[still])
    np.testing.assert_allclose(after[w][list(channels)], expected[w][list(channels)], rtol=1e-5)
    assert not np.isclose(after[w][list(channels)], before[list(channels)], rtol=1e-6).all()
    for i in expected.keys() - {w}:
        np.testing.assert_array_equal(after[i], expected[i])


@pytest.mark.parametrize(("micro_batch", "workers"), [(8, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("name", ["dense", "convolution"])
def test_many_steps_are_those_of_dense_training(name: str, micro_batch: int, workers: int) -> None:
    """A mean squared error keeps the last layer's channels apart, moments included."""
    graph = NETWORKS[name]
    w = filter_of(graph)
    alone = replace(INFO, trainable_tensors=(w,))
    chosen = sparse(graph, 0.5, alone)
    expected = train(graph, alone, 6, micro_batch=8, workers=1)[w]
    found = train(graph, chosen, 6, micro_batch=micro_batch, workers=workers)[w]
    channels = list(chosen.sparse[0][1])
    np.testing.assert_allclose(found[channels], expected[channels], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["FULLY_CONNECTED", "CONV_2D"])
def test_a_kernel_of_channels_gives_those_rows_of_the_gradient(name: str) -> None:
    """In float64, against the product written out; dw and the workspace begin as NaN."""
    row = find_operator(name)
    assert row is not None
    kernel, rng = row.grads["w"], np.random.default_rng(5)
    assert isinstance(kernel, Kernel)
    channels = np.array([1, 3, 4])
    x, dy = rng.normal(size=(2, 3, 3, 2)), rng.normal(size=(2, 3, 3, 6))
    expected = np.einsum("nhwo,nhwc->oc", dy, x)
    if name == "FULLY_CONNECTED":
        x, dy, w = x.reshape(18, 2), dy.reshape(18, 6), np.zeros((6, 2))
    else:
        w = np.zeros((6, 1, 1, 2))
    attrs = row.attrs({"padding": 0, "stride_w": 1, "stride_h": 1}, {})
    few = of_channels(kernel, channels)
    dw = np.full((3, *w.shape[1:]), np.nan)
    given = {"x": x, "dy": dy, "w": w, "y": dy, "dw": dw}
    specs = {n: TensorSpec(a.shape, a.dtype) for n, a in given.items()}
    room = {n: np.full(s.shape, np.nan) for n, s in few.workspace(attrs, specs).items()}
    few.run(attrs, x=x, dy=dy, dw=dw, **room, **few.prepare(attrs, specs))
    np.testing.assert_allclose(dw.reshape(3, 2), expected[channels], rtol=1e-12)


@pytest.mark.parametrize("name", ["dense", "convolution", "strided"])
def test_arithmetic_is_that_of_the_chosen_channels(name: str) -> None:
    """The gradient of the filter takes a quarter of its operations; all else takes as many."""
    graph = NETWORKS[name]
    found = []
    for info in (INFO, sparse(graph, 0.25)):
        with Trainer(graph, info, micro_batch=8, workers=1) as trainer:
            calls = [s for s in trainer.plan.entries if isinstance(s, Call)]
        w = f"d.t{filter_of(graph)}"
        found.append({c.label: c.flops for c in calls if w not in c.values(c.writes)})
        found.append({c.label: c.flops for c in calls if w in c.values(c.writes)})
    rest, (every,), same, (few,) = found[0], found[1].values(), found[2], found[3].values()
    assert rest == same
    assert every == 4 * few > 0


def test_gradient_and_state_are_of_the_chosen_channels_only() -> None:
    graph = dense()
    w, info = filter_of(graph), sparse(dense(), 0.25)
    with Trainer(graph, info, micro_batch=4, workers=1) as trainer:
        assert trainer.plan.values[f"d.t{w}"].spec.shape == (2, 9)
        assert {slot[w].shape for slot in trainer.parameters.slots.values()} == {(2, 9)}
        assert trainer.parameters.nbytes == 4 * (8 * 9 + 2 * 9 + 8 + 9 * 12 + 9)
        assert trainer.memory().gradients == 4 * (2 * 9 + 8 + 9 * 12 + 9)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.01, (2,)), (0.25, (2,)), (0.26, (1, 2)), (0.75, (0, 1, 2)), (1.0, (0, 1, 2, 3))],
)
def test_the_strongest_channels_are_chosen(share: float, expected: tuple[int, ...]) -> None:
    """Of equal ones the first; a share is rounded up."""
    w = np.array([[0, 1], [-3, 0], [3, 1], [1, 0]], np.float32)
    assert strongest(w.reshape(4, 1, 2, 1), share) == expected


def test_a_share_that_is_a_whole_number_of_channels_is_not_rounded_up() -> None:
    assert len(strongest(np.ones((100, 2), np.float32), 0.07)) == 7


def test_a_whole_share_is_dense_and_later_shares_win() -> None:
    graph = dense()
    assert sparse(graph, 1.0) == INFO
    name = graph.tensors[filter_of(graph)].name
    chosen = choose_channels(LoweredGraphs(graph), INFO, [("FULLY_CONNECTED", 0.5), (name, 0.25)])
    assert [len(channels) for _, channels in chosen.sparse] == [5, 2]  # of 9 and of 8


@pytest.mark.parametrize("pattern", ["x2", "no such", "x1"])
def test_a_pattern_without_a_filter_that_trains_is_refused(pattern: str) -> None:
    """x2 is a bias; x1, the first filter, is frozen."""
    info = select(LoweredGraphs(dense()), INFO, Selection(freeze=("x1",)))
    with pytest.raises(OptionError, match=f"`sparse=`: .* but got {pattern}"):
        choose_channels(LoweredGraphs(dense()), info, [(pattern, 0.5)])


def test_a_tensor_that_is_more_than_a_filter_is_refused() -> None:
    net = Net()
    x, w = net.input(1, 3), net.weight(3, 3)
    y = net.add("FULLY_CONNECTED", [x, w], (1, 3))
    graph = net.graph(net.add("ADD", (y, net.add("MUL", (w, w), (3, 3))), (3, 3)))
    with pytest.raises(OptionError, match="`sparse=`"):
        choose_channels(LoweredGraphs(graph), INFO, [("*", 0.5)])


@pytest.mark.parametrize("channels", [(), (8,), (1, 1), (2, 1)])
def test_channels_of_another_model_are_refused(channels: tuple[int, ...]) -> None:
    graph = dense()
    info = replace(INFO, sparse=((filter_of(graph), channels),))
    with pytest.raises(OptionError, match="`sparse=`: channels must be ascending and below"):
        Trainer(graph, info)
    with pytest.raises(OptionError, match="must be of a tensor that all operators read as a fil"):
        Trainer(graph, replace(INFO, sparse=((0, (0,)),)))


def test_a_circle_plus_cannot_say_channels() -> None:
    with pytest.raises(OptionError, match="all weights of an operator or none"):
        encode_training_info(sparse(dense(), 0.5), 3)


MODEL = GOLDEN / "mnist" / "model.circle"
DATA = [
    *("--load-input", GOLDEN / "mnist" / "input.bin"),
    *("--load-expected", GOLDEN / "mnist" / "expected.bin", "--loss", "categorical-crossentropy"),
]


def odt(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, [command, str(MODEL), *map(str, arguments)])


def weights(path: Path) -> dict[str, Array]:
    tensors = read_model(str(path)).graph.tensors
    return {t.name: t.data for t in tensors if t.data is not None and t.spec.dtype.kind == "f"}


def test_resumed_training_has_the_same_channels(tmp_path: Path) -> None:
    through, rest, half = (tmp_path / name for name in ("through", "rest", "half.odt"))
    few = ("--sparse", "CONV_2D=0.25", "--sparse", "FULLY_CONNECTED=.5", "--batch-size", 8)
    for arguments in (
        (*few, "--epochs", 2, "--export-circle", through),
        (*few, "--epochs", 1, "--export-checkpoint", half),
        ("--checkpoint", half, "--epochs", 2, "--export-circle", rest),
    ):
        result = odt("train", *DATA, *arguments)
        assert result.exit_code == 0, result.output
        assert "Warning" not in result.stderr
    assert through.read_bytes() == rest.read_bytes()
    before, after = weights(MODEL), weights(through)
    for name, a in before.items():
        moved = sum((after[name] != a).reshape(len(a), -1).any(1))
        if a.ndim > 1:
            assert 0 < moved <= -(-len(a) // 2)


def test_onert_s_checkpoints_have_no_place_for_channels(tmp_path: Path) -> None:
    few = ("--sparse", "CONV_2D=0.25", "--epochs", 1, "--batch-size", 8)
    result = odt("train", *DATA, *few, "--export-checkpoint", tmp_path / "c.bin")
    assert result.exit_code == 1
    assert "train. Give a name that ends in .odt." in result.stderr


def test_the_plan_agrees_with_the_memory_of_a_trainer() -> None:
    few = ("--sparse", "CONV_2D=0.25", "--batch-size", 8, "--micro-batch", 2, "--workers", 1)
    result = odt("plan", *few, "--loss", "categorical-crossentropy")
    assert result.exit_code == 0, result.output
    graph = read_model(str(MODEL)).graph
    info = replace(INFO, loss="categorical_crossentropy")
    info = choose_channels(LoweredGraphs(graph), info, [("CONV_2D", 0.25)])
    with Trainer(graph, info, micro_batch=2, workers=1) as trainer:
        memory = trainer.memory()
    words = " ".join(result.stdout.split())
    assert f"parameters {memory.parameters:,} bytes optimizer {memory.slots:,} bytes" in words
    assert f"gradients {memory.gradients:,} bytes" in words


def test_check_tries_the_chosen_channels_alone() -> None:
    """A quarter of the rows counts, rounded up: 32 of 128 with 784 values, 3 of 10 with 128."""
    model = GOLDEN / "mlp_sm" / "model.circle"
    result = CliRunner().invoke(main, ["check", str(model), "--sparse", "*=0.25"])
    assert result.exit_code == 0, result.output
    few = 32 * 784 + 128 + 3 * 128 + 10
    assert result.stdout.startswith(f"trains: {few:,} parameters in 4 tensors\n")
    assert result.stdout.count("\nok  ") == 4
    every = CliRunner().invoke(main, ["check", str(model)])
    dense, sparse = (
        int(re.findall(r"([\d,]+) forward and backward", text.stdout)[0].replace(",", ""))
        for text in (every, result)
    )
    assert dense > 2 * 2 * (128 * 784 + 10 * 128)
    assert dense - sparse == 2 * ((128 - 32) * 784 + (10 - 3) * 128)
    result = CliRunner().invoke(main, ["check", str(model), "--sparse", "x=0.25"])
    assert result.exit_code == 1
    assert "--sparse: must match" in result.stderr


@pytest.mark.parametrize("text", ["CONV_2D", "=0.5", "CONV_2D=", "CONV_2D=0", "CONV_2D=1.1", "C=x"])
def test_a_share_must_be_above_zero_and_at_most_one(text: str) -> None:
    result = odt("train", *DATA, "--sparse", text)
    assert result.exit_code == 2
    assert "must be GLOB=FRACTION with a fraction above 0 and at most 1, but got" in result.stderr
