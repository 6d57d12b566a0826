"""Control flow that follows from constants: its operators take the place of CALL, IF and WHILE."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import table
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder
from support.subgraphs import WIDTH, Subgraphs

from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.inline import inline
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.trainable import trainable_tensors
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array


def a_loop(model: Subgraphs, x: int) -> int:
    return model.loop(model.add_dense(x, WIDTH), 3)


def a_call(model: Subgraphs, x: int) -> int:
    return model.composite(x, model.subgraph(model.step))


def two_calls(model: Subgraphs, x: int) -> int:
    number = model.subgraph(model.step)
    return model.composite(model.composite(x, number), number)


def a_constant_choice(model: Subgraphs, x: int) -> int:
    return model.choice(model.add_constant(np.array(False)), x)


def a_choice_by_data(model: Subgraphs, x: int) -> int:
    total = model.add_operator("SUM", (x, model.add_constant([0, 1])), (), keep_dims=False)
    zero = model.add_constant(np.array(0, np.float32))
    condition = model.add_operator("GREATER", (total, zero), (), dtype="bool")
    return model.choice(condition, x)


def a_loop_in_a_choice(model: Subgraphs, x: int) -> int:
    def branch() -> tuple[int, ...]:
        return (model.loop(model.add_input((1, WIDTH)), 2),)

    then, other = model.subgraph(branch), model.subgraph(model.step)
    condition = model.add_constant(np.array(True))
    return model.add_operator(
        "IF",
        (condition, x),
        (1, WIDTH),
        then_subgraph_index=then,
        else_subgraph_index=other,
    )


CASES = [a_loop, a_call, two_calls, a_constant_choice, a_choice_by_data, a_loop_in_a_choice]
TENSORS = [4, 2, 2, 2, 4, 2]  # weights and biases that train


def written(case: Callable[[Subgraphs, int], int], folder: Path) -> Path:
    model = Subgraphs("tflite")
    y = case(model, model.add_input((1, WIDTH)))
    model.write(folder / "m.tflite", y)
    return folder / "m.tflite"


@pytest.mark.parametrize("case", CASES)
def test_forward_agrees_with_litert(case: Callable[[Subgraphs, int], int], tmp_path: Path) -> None:
    path = written(case, tmp_path)
    inputs = [np.random.default_rng(0).normal(size=(6, WIDTH)).astype(np.float32)]
    assert difference(odt(path, inputs)[0], litert(path, inputs)[0]) < 1e-6


@pytest.mark.parametrize(("case", "trained"), [*zip(CASES, TENSORS, strict=True)])
def test_subgraphs_train_and_are_exported(
    case: Callable[[Subgraphs, int], int], trained: int, tmp_path: Path
) -> None:
    """Weights of subgraphs get their new values in the file, also those of several steps."""
    path, out = written(case, tmp_path), tmp_path / "out.tflite"
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(8, WIDTH)).astype(np.float32)]
    targets = [rng.uniform(-0.5, 0.5, (8, WIDTH)).astype(np.float32)]
    model = lower_model(read_model(path))
    info = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=0.1)
    with Trainer(model.graphs, info) as trainer:
        assert len(trainer.parameters.trained) == trained
        losses = [
            e.training.loss for e in trainer.train(ArrayData(inputs, targets), InOrder(8), epochs=9)
        ]
        expected = [*trainer.weights()]
        export_model(model.file, trainer.weights(), out)
    assert len(expected) == trained
    assert losses[-1] < losses[0]
    assert difference(odt(out, inputs)[0], litert(out, inputs)[0]) < 1e-6
    mean = float(((odt(out, inputs)[0] - targets[0]) ** 2).mean())
    assert mean < losses[0]


def test_gradients_of_a_loop_add_up(tmp_path: Path) -> None:
    """Against a model with the same layer written out for each step."""
    graph = inline(read_model(written(a_loop, tmp_path))).graph
    layers = [n for n in graph.nodes if n.op == "FULLY_CONNECTED"]
    assert len(layers) == 4
    assert len({n.inputs[1] for n in layers[1:]}) == 1


def test_outputs_keep_their_index_and_name(tmp_path: Path) -> None:
    file = read_model(written(a_loop, tmp_path))
    model = inline(file)
    assert model.graph.outputs == file.graph.outputs
    assert model.graph.output_names == file.graph.output_names


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_inspect_lists_the_weights_of_subgraphs(more: tuple[str, ...], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", str(written(a_loop, tmp_path)), *more])
    assert result.exit_code == 0, result.output
    if not more:
        assert "parameters: 40 values in 4 tensors" in result.output
        assert "operator 1  (4, 4) float32  tensor" in result.output


def test_operators_are_those_of_the_file(tmp_path: Path) -> None:
    """An operator trains or not with everything that it runs."""
    model = lower_model(read_model(written(a_loop, tmp_path)))
    info = TrainingInfo(loss="mean_squared_error", batch_size=2, trainable_ops=(0,))
    with Trainer(model.graphs, info) as trainer:
        assert {*trainer.parameters.trained} == {1, 2}


def test_buffers_that_share_bytes_are_separated(tmp_path: Path) -> None:
    """A weight of the main graph and one of a loop's body name one buffer."""
    model = Subgraphs("tflite")
    y = a_loop(model, model.add_input((1, WIDTH)))
    body = model.model.subgraphs[2]
    weight = next(t for t in body.tensors if t.name.endswith("/w"))
    weight.buffer = next(t for t in model.graph.tensors if t.name.endswith("/w")).buffer
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model.write(path, y)
    lowered = lower_model(read_model(path))
    with Trainer(lowered.graphs, TrainingInfo(loss="mean_squared_error")) as trainer:
        weights = {i: a + 0.1 * (k + 1) for k, (i, a) in enumerate(trainer.weights().items())}
    export_model(lowered.file, weights, out)
    inputs = [np.ones((2, WIDTH), np.float32)]
    read = inline(read_model(out)).graph
    assert all(np.array_equal(values(read, i), a) for i, a in weights.items())
    assert difference(odt(out, inputs)[0], litert(out, inputs)[0]) < 1e-6


def values(graph: Graph, i: int) -> np.ndarray:
    data = graph.tensors[i].data
    assert data is not None
    return data


def test_a_loop_that_depends_on_data_stays(tmp_path: Path) -> None:
    model = Subgraphs("tflite")
    k, x = model.add_input((), "int32"), model.add_input((1, WIDTH))
    y = model.loop(x, 3)
    model.graph.operators[0].inputs = [k, x]
    model.write(tmp_path / "m.tflite", y)
    lowered = lower_model(read_model(tmp_path / "m.tflite"))
    (refused,) = lowered.graphs.unsupported
    assert "WHILE" in refused.where
    assert "does not follow from constants" in refused.reason


def test_an_endless_loop_stays(tmp_path: Path) -> None:
    model = Subgraphs("tflite")
    y = model.loop(model.add_input((1, WIDTH)), 0, "GREATER_EQUAL")
    model.write(tmp_path / "m.tflite", y)
    graph = inline(read_model(tmp_path / "m.tflite")).graph
    assert [n.op for n in graph.nodes] == ["WHILE"]


@pytest.mark.parametrize(("most", "stays"), [(14, False), (10, True)])
def test_a_loop_of_too_many_nodes_stays(
    most: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is that of loops: a file may have as many operators as it likes."""
    monkeypatch.setattr("odt.core.lowering.normalize.inliner.MAX_NODES", most)
    model = Subgraphs("tflite")
    y = model.loop(model.add_input((1, WIDTH)), 3)
    for _ in range(15):
        y = model.add_operator("TANH", (y,), (1, WIDTH))
    model.write(tmp_path / "m.tflite", y)
    graph = inline(read_model(tmp_path / "m.tflite")).graph
    assert ("WHILE" in [n.op for n in graph.nodes]) == stays
    assert [n.op for n in graph.nodes[-15:]] == ["TANH"] * 15


@pytest.mark.parametrize(("name", "trained"), [("odml.rms_norm", 2), ("odt.layer", 4)])
def test_constants_of_a_composite_with_a_kernel_of_the_runtime_do_not_train(
    name: str, trained: int, tmp_path: Path
) -> None:
    """The kernel does not read them: a loss that they lower would not fall in the runtime."""
    model = Subgraphs("tflite")
    x = model.add_dense(model.add_input((1, WIDTH)), WIDTH)
    y = model.composite(x, model.subgraph(model.step), name)
    model.write(tmp_path / "m.tflite", y)
    graph = inline(read_model(tmp_path / "m.tflite")).graph
    operators = {node.origin for node in graph.nodes}
    assert len(trainable_tensors(graph, operators)) == trained


def test_a_subgraph_that_runs_itself_stays(tmp_path: Path) -> None:
    model = Subgraphs("tflite")

    def itself() -> tuple[int, ...]:
        return (model.composite(model.add_input((1, WIDTH)), 1),)

    y = model.composite(model.add_input((1, WIDTH)), model.subgraph(itself))
    model.write(tmp_path / "m.tflite", y)
    graph = inline(read_model(tmp_path / "m.tflite")).graph
    assert [n.op for n in graph.nodes] == ["STABLEHLO_COMPOSITE"]


def test_a_subgraph_must_exist(tmp_path: Path) -> None:
    model = Subgraphs("tflite")
    y = model.composite(model.add_input((1, WIDTH)), 7)
    model.write(tmp_path / "m.tflite", y)
    with pytest.raises(ModelError, match="its subgraph must be below 1, but got 7"):
        read_model(tmp_path / "m.tflite")


@pytest.mark.parametrize(
    ("values", "trains"), [(np.zeros(WIDTH), False), (np.linspace(-1, 1, WIDTH), True)]
)
def test_the_first_state_of_a_loop_trains_if_it_was_learned(
    values: Array, trains: bool, tmp_path: Path
) -> None:
    model = Subgraphs("tflite")
    state = model.add_constant(values.astype(np.float32)[None])
    y = model.add_operator("ADD", (model.loop(state, 3), model.add_input((1, WIDTH))), (1, WIDTH))
    model.write(tmp_path / "m.tflite", y)
    graph = lower_model(read_model(tmp_path / "m.tflite")).graph
    trained = trainable_tensors(graph, {node.origin for node in graph.nodes})
    assert (state in trained) == trains
    assert len(trained) == 2 + trains  # matrix and bias of the steps


def test_what_is_known_of_tensors_of_a_subgraph_that_stays_is_dropped(tmp_path: Path) -> None:
    """Its tensors got numbers of the graph before the reason to keep it was met."""
    model = Subgraphs("tflite")

    def branch(width: int) -> Callable[[], tuple[int, ...]]:
        def make() -> tuple[int, ...]:
            x = model.add_input((1, WIDTH))
            weight = model.add_constant(np.ones((width, WIDTH), np.int8))
            model.graph.tensors[weight].quantization = table(
                "QuantizationParameters", scale=[0.5], zero_point=[0]
            )
            real = model.add_operator("DEQUANTIZE", (weight,), (width, WIDTH))
            return (model.add_operator("FULLY_CONNECTED", (x, real), (1, width)),)

        return make

    x = model.add_input((1, WIDTH))
    condition = model.add_operator("GREATER", (x, x), (1, WIDTH), dtype="bool")
    numbers = [model.subgraph(branch(width)) for width in (WIDTH, WIDTH + 1)]
    y = model.add_operator(
        "IF",
        (condition, x),
        (1, WIDTH),
        then_subgraph_index=numbers[0],
        else_subgraph_index=numbers[1],
    )
    model.write(tmp_path / "m.tflite", y)
    inlined = inline(read_model(tmp_path / "m.tflite"))
    tensors = range(len(inlined.graph.tensors))
    assert [node.op for node in inlined.graph.nodes] == ["GREATER", "IF"]
    assert set(inlined.quantization) <= set(tensors)
    assert set(inlined.places) <= set(tensors)
