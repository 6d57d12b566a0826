"""Several samples of a graph that was written for one give what each gives alone."""

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pytest
from op_db import OP_DB, OpInfo, Sample
from support.lowering import lower
from support.networks import ArrayData, InOrder, Net
from support.op_run import draw, row_of

from odt.core.lowering.batch_samples import batch_samples
from odt.core.lowering.binding import expand
from odt.core.lowering.sample_axis import mixing_nodes
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node, Tensor
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation
from odt.core.planning.memory import plan_memory
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.core.training.trainer import Trainer
from odt.errors import UnsupportedError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec

COUNT = 3
OPERATORS = [info for info in OP_DB.values() if info.name not in LOSSES]
SAMPLES = pytest.mark.parametrize(
    ("info", "sample"),
    [pytest.param(i, s, id=f"{i.name}-{s.label}") for i in OPERATORS for s in i.samples],
)


def tensor(name: str, spec: TensorSpec, data: Array | None = None) -> Tensor:
    return Tensor(name, spec, (), data)


def alone(
    row: OpDef, sample: Sample, given: Mapping[str, Array], grows: Collection[str], *, view_of: bool
) -> Graph:
    """One node; what grows is an input, or a view of an input (1, …)."""
    operands: dict[str, tuple[TensorSpec, Array | None]] = {
        n: (TensorSpec(a.shape, a.dtype), None if n in grows else a) for n, a in given.items()
    }
    for name, value in sample.statics.items():
        array = np.asarray(value)
        operands[name] = TensorSpec(array.shape, array.dtype), array
    attrs = row.attrs(sample.options, sample.statics)
    made = row.infer(attrs, {n: spec for n, (spec, _) in operands.items() if n in given})
    tensors: list[Tensor] = []
    nodes: list[Node] = []
    inputs, at = [], {}

    def add(name: str, spec: TensorSpec, data: Array | None = None) -> int:
        tensors.append(tensor(name, spec, data))
        return len(tensors) - 1

    def view(x: int, y: int) -> None:
        options = {"new_shape": tensors[y].spec.shape}
        nodes.append(Node("RESHAPE", (x,), (y,), options, len(nodes)))

    for name, (spec, data) in operands.items():
        at[name] = add(name, spec, data)
        if data is None and not view_of:
            inputs.append(at[name])
        elif data is None:
            inputs.append(add(f"input {name}", TensorSpec((1, *spec.shape), spec.dtype)))
            view(inputs[-1], at[name])
    order = [at.get(n, ABSENT) for n in expand([n.rstrip("?") for n in row.inputs], operands)]
    ys = [add(n, spec) for n, spec in made.items()]
    nodes.append(Node(row.name, tuple(order), tuple(ys), sample.options, len(nodes)))
    outputs = [
        add(f"output {k}", TensorSpec((1, *s.shape), s.dtype)) for k, s in enumerate(made.values())
    ]
    for y, whole in zip(ys, outputs, strict=True):
        view(y, whole)
    return LoweredGraph(Graph(tuple(tensors), tuple(nodes), tuple(inputs), tuple(outputs)))


def run(lowered: LoweredGraph, values: Mapping[str, Array]) -> list[Array]:
    """The outputs; values are those of the inputs."""
    plan = Computation(outputs=True).plan(lowered)
    memory = plan_memory(plan)
    program = Program(plan, memory, make_arena(memory.nbytes), {})
    for i, a in zip(lowered.inputs, program.inputs, strict=True):
        a[...] = values[lowered.tensors[i].name.removeprefix("input ")].reshape(a.shape)
    program.forward()
    return [a.copy() for a in program.outputs]


def ways(sample: Sample, names: Collection[str]) -> list[frozenset[str]]:
    """Which inputs may grow: all, those the sample says, and each alone."""
    found = [frozenset(names), frozenset(names) - set(sample.constants)]
    return list(dict.fromkeys(f for f in (*found, *(frozenset({n}) for n in names)) if f))


def batched(graph: Graph) -> tuple[LoweredGraph, LoweredGraph] | None:
    """The graph for one sample and for several; None if it has no form for several."""
    try:
        one = lower(graph, 1)  # not if a constant is data that the file must have
        return one, batch_samples(one, COUNT)
    except UnsupportedError:
        return None


# They compute no values of samples, or need a state, which a file has as a variable.
WITHOUT_SAMPLES = {
    *("BROADCAST_ARGS", "FILL", "RANGE", "RANK", "SHAPE", "UNIDIRECTIONAL_SEQUENCE_RNN"),
}


@pytest.mark.parametrize("info", OPERATORS, ids=lambda info: info.name)
def test_every_operator_is_compared(info: OpInfo) -> None:
    def has_form(sample: Sample) -> bool:
        row, given = row_of(info.name), draw(info, sample, np.float32, 0)
        return any(
            batched(alone(row, sample, given, grows, view_of=view_of))
            for grows in ways(sample, given)
            for view_of in (False, True)
        )

    assert any(map(has_form, info.samples)) == (info.name not in WITHOUT_SAMPLES)


@pytest.mark.parametrize("view_of", [True, False])
@SAMPLES
def test_a_batched_graph_equals_its_samples_computed_one_by_one(
    info: OpInfo, sample: Sample, *, view_of: bool
) -> None:
    row = row_of(info.name)
    draws = [draw(info, sample, np.float32, seed) for seed in range(COUNT)]
    for grows in ways(sample, draws[0]):
        found = batched(alone(row, sample, draws[0], grows, view_of=view_of))
        if found is None:
            continue
        one, several = found
        assert not mixing_nodes(several)
        apart = [run(one, {**d}) for d in draws]
        together = run(several, {n: np.stack([d[n] for d in draws]) for n in grows})
        for k, whole in enumerate(together):
            wanted = np.concatenate([a[k] for a in apart])
            np.testing.assert_allclose(whole, wanted, 1e-5, 1e-6, err_msg=f"{sorted(grows)}")


def unrolled() -> Graph:
    """Three steps of a cell on (1, 3, 4), time first as a converter writes it."""
    net = Net()
    x = net.input(1, 3, 4)
    x = net.add("RESHAPE", (x, net.constant([3, 1, 4], np.int32)), (3, 1, 4))
    w, r = net.weight(5, 4), net.weight(5, 5)
    x = net.add("FULLY_CONNECTED", (x, w, net.weight(5)), (3, 1, 5), keep_num_dims=True)
    h = net.constant(np.zeros((1, 5)))
    steps = []
    for t in range(3):
        ends = [net.constant(v, np.int32) for v in ([t, 0, 0], [t + 1, 1, 5], [1, 1, 1])]
        now = net.add("STRIDED_SLICE", (x, *ends), (1, 5), shrink_axis_mask=1)
        h = net.add(
            "TANH",
            [net.add("ADD", (now, net.add("FULLY_CONNECTED", (h, r), (1, 5))), (1, 5))],
            (1, 5),
        )
        steps.append(net.add("RESHAPE", (h, net.constant([1, 1, 5], np.int32)), (1, 1, 5)))
    y = net.add("CONCATENATION", steps, (3, 1, 5), axis=0)
    y = net.add("MEAN", (y, net.constant([0], np.int32)), (1, 5), keep_dims=False)
    return net.graph(net.dense(y, 2))


def token() -> Graph:
    """A learned row goes before those of (1, 3, 4), and places are added."""
    net = Net()
    x = net.input(1, 3, 4)
    x = net.add("CONCATENATION", (net.weight(1, 1, 4), x), (1, 4, 4), axis=1)
    x = net.add("RESHAPE", (x, net.constant([4, 4], np.int32)), (4, 4))
    x = net.add("ADD", (x, net.weight(4, 4)), (4, 4))
    x = net.add("RESHAPE", (x, net.constant([1, 16], np.int32)), (1, 16))
    return net.graph(net.dense(x, 2))


def cache() -> Graph:
    """Rows of (1, 3, 4) replace three of five learned rows, of which there are cumulative sums."""
    net = Net()
    x = net.dense(net.input(1, 3, 4), 4, keep_num_dims=True)
    inputs = net.weight(1, 5, 4), x, net.constant([0, 1, 0], np.int32)
    x = net.add("DYNAMIC_UPDATE_SLICE", inputs, (1, 5, 4))
    x = net.add("CUMSUM", (x, net.constant(1, np.int32)), (1, 5, 4), exclusive=True)
    x = net.add("RESHAPE", (x, net.constant([1, 20], np.int32)), (1, 20))
    return net.graph(net.dense(x, 2))


def picked() -> Graph:
    """Rows are picked by constant places, put to other places, and added up."""
    net = Net()
    x = net.dense(net.input(1, 3, 4), 4, keep_num_dims=True)
    x = net.add("GATHER_ND", (x, net.constant([[0, 2], [0, 0], [0, 2]], np.int32)), (3, 4))
    to, shape = net.constant([[1], [0], [3]], np.int32), net.constant([4, 4], np.int32)
    x = net.add("SCATTER_ND", (to, net.add("TANH", (x,), (3, 4)), shape), (4, 4))
    x = net.add("SEGMENT_SUM", (x, net.constant([0, 0, 1, 1], np.int32)), (2, 4))
    x = net.add("RESHAPE", (x, net.constant([1, 8], np.int32)), (1, 8))
    return net.graph(net.dense(x, 2))


def vector() -> Graph:
    """A vector (12,) without a batch axis, of which FULLY_CONNECTED makes one row."""
    net = Net()
    return net.graph(net.dense(net.dense(net.input(12), 5), 2))


def matrix() -> Graph:
    """A matrix (3, 4) without a batch axis: each value has a weight."""
    net = Net()
    x = net.add("MUL", (net.input(3, 4), net.weight(3, 4)), (3, 4))
    x = net.add("RESHAPE", (x, net.constant([1, 12], np.int32)), (1, 12))
    return net.graph(net.dense(x, 2))


def terms() -> Graph:
    """A matrix (3, 4) is added up with a learned one."""
    net = Net()
    x = net.add("ADD_N", (net.input(3, 4), net.weight(3, 4)), (3, 4))
    x = net.add("RESHAPE", (x, net.constant([1, 12], np.int32)), (1, 12))
    return net.graph(net.dense(x, 2))


@pytest.mark.parametrize("network", [unrolled, token, cache, picked, vector, matrix, terms])
def test_batches_and_single_samples_train_alike(network: Callable[[], Graph]) -> None:
    graph, rng = network(), np.random.default_rng(4)
    data = ArrayData(
        [rng.normal(size=(8, 3, 4)).astype("f4")], [rng.normal(size=(8, 2)).astype("f4")]
    )
    info = TrainingInfo(loss="mean_squared_error", optimizer="sgd", learning_rate=0.1, batch_size=8)
    found = []
    for m, w in ((8, 1), (3, 2), (1, 1)):
        with Trainer(graph, info, micro_batch=m, workers=w) as trainer:
            assert not trainer.plan.mixing
            list(trainer.train(data, InOrder(8), epochs=3))
            found.append({i: a.copy() for i, a in trainer.parameters.tensors.items()})
    for other in found[1:]:
        for i, a in found[0].items():
            assert np.ptp(a - graph.tensors[i].data) > 1e-3 or a.size < 5, i
            np.testing.assert_allclose(other[i], a, 1e-4, 1e-6)


def test_an_operator_without_a_form_for_several_samples_is_named() -> None:
    """A convolution of one image with each sample's own filter."""
    net = Net()
    w = net.add("RESHAPE", (net.input(1, 12), net.constant([1, 2, 2, 3], np.int32)), (1, 2, 2, 3))
    image, options = net.weight(1, 3, 3, 3), {"padding": 1, "stride_h": 1, "stride_w": 1}
    x = net.add("CONV_2D", (image, w), (1, 2, 2, 1), **options)
    y = net.add("RESHAPE", (x, net.constant([1, 4], np.int32)), (1, 4))
    graph = net.graph(net.dense(y, 2))
    lower(graph, 1)
    with pytest.raises(UnsupportedError, match=r"node 1 \(CONV_2D\)"):
        lower(graph, 2)
