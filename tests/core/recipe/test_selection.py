"""What patterns select, and that training then moves it and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.networks import ArrayData, InOrder, Net
from support.paths import GOLDEN

from odt.cli.main import main
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call
from odt.core.recipe.selection import Selection, select
from odt.core.training.trainer import Trainer
from odt.errors import OptionError

MLP = GOLDEN / "mlp_sm"
MODEL = MLP / "model.circle"
DATA = ["--load-input", str(MLP / "input.bin"), "--load-expected", str(MLP / "expected.bin")]
INFO = TrainingInfo(loss="mean_squared_error", optimizer="sgd", learning_rate=0.1, batch_size=4)


def network() -> Graph:
    """x0 input; w1 b2 → x3; RELU x4; w5 b6 → x7; ADD of x8 (per channel) → x9."""
    net = Net()
    hidden = net.add("RELU", [net.dense(net.input(1, 5), 4)], (1, 4))
    y = net.dense(hidden, 3)
    return net.graph(net.add("ADD", [y, net.weight(3)], (1, 3)))


def trained(graph: Graph, selection: Selection, info: TrainingInfo = INFO) -> set[str]:
    with Trainer(graph, select(LoweredGraphs(graph), info, selection)) as trainer:
        return {graph.tensors[i].name for i in trainer.parameters.tensors}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), {"x1", "x2", "x5", "x6", "x8"}),
        (Selection(("*",)), {"x1", "x2", "x5", "x6", "x8"}),
        (Selection(("x5",)), {"x5"}),
        (Selection(("x[56]", "x1")), {"x1", "x5", "x6"}),
        (Selection(("FULLY_*",)), {"x1", "x2", "x5", "x6"}),
        (Selection(freeze=("FULLY_*",)), {"x8"}),
        (Selection(("FULLY_*",), ("x[12]",)), {"x5", "x6"}),
        (Selection(bias_only=True), {"x2", "x6", "x8"}),
        (Selection(freeze=("x8",), bias_only=True), {"x2", "x6"}),
    ],
)
def test_the_selected_weights_train(selection: Selection, expected: set[str]) -> None:
    assert trained(network(), selection) == expected


@pytest.mark.parametrize("selected", [("x1",), ("x6",), ("x1", "x6", "x8")])
def test_a_selected_tensor_moves_as_if_all_trained_and_others_do_not(
    selected: tuple[str, ...],
) -> None:
    """One step: the gradient of a tensor does not depend on what else trains."""
    graph, rng = network(), np.random.default_rng(1)
    data = ArrayData([rng.normal(size=(4, 5)).astype("f4")], [rng.normal(size=(4, 3)).astype("f4")])
    after = []
    for info in (INFO, select(LoweredGraphs(graph), INFO, Selection(selected))):
        with Trainer(graph, info, micro_batch=4, workers=1) as trainer:
            list(trainer.train(data, InOrder(4), epochs=1))
            tensors = trainer.parameters.tensors
            after.append({graph.tensors[i].name: a.copy() for i, a in tensors.items()})
    assert set(after[1]) == set(selected)
    for name, a in after[1].items():
        np.testing.assert_array_equal(a, after[0][name])
        (start,) = [t.data for t in graph.tensors if t.name == name and t.data is not None]
        assert not np.array_equal(a, start)


def test_backward_ends_at_the_deepest_selected_tensor() -> None:
    graph = network()
    with Trainer(graph, select(LoweredGraphs(graph), INFO, Selection(("x6",)))) as trainer:
        backward = [
            s.label
            for s in trainer.plan.entries[trainer.plan.forward_entries :]
            if isinstance(s, Call)
        ]
    assert [label for label in backward if "FULLY" in label] == ["2 FULLY_CONNECTED d.b"]


def test_a_selection_of_whole_operators_is_one_of_operators() -> None:
    """So that a circle+ can say it."""
    chosen = select(LoweredGraphs(network()), INFO, Selection(("x1", "x2")))
    assert (chosen.trainable_ops, chosen.trainable_tensors) == ((0,), None)
    some = select(LoweredGraphs(network()), INFO, Selection(("x1",)))
    assert (some.trainable_ops, some.trainable_tensors) == ((0,), (1,))
    with pytest.raises(OptionError, match="all weights of an operator or none"):
        encode_training_info(some, 4)


def test_trainable_overrides_the_training_info_and_freeze_does_not() -> None:
    last = replace(INFO, trainable_ops=(2, 3))
    assert trained(network(), Selection(("x1",)), last) == {"x1"}
    assert trained(network(), Selection(freeze=("x6",)), last) == {"x5", "x8"}
    among = select(LoweredGraphs(network()), last, Selection(("FULLY_CONNECTED",)), among=True)
    assert among.trainable_ops == (2,)


def test_a_weight_is_not_selected_by_a_tensor_of_its_buffer() -> None:
    net = Net()
    x, w = net.input(1, 3), net.weight(3, 3)
    net.tensors.append(replace(net.tensors[w], name="other"))
    graph = net.graph(net.add("FULLY_CONNECTED", [x, w], (1, 3)))
    assert trained(graph, Selection((f"x{w}",))) == {f"x{w}"}
    with pytest.raises(OptionError, match="matches none"):
        trained(graph, Selection(("other",)))


def test_a_multiplied_constant_is_not_a_bias() -> None:
    net = Net()
    x, w, b = net.input(1, 3), net.weight(3, 3), net.weight(3)
    y = net.add("FULLY_CONNECTED", [x, w, b], (1, 3))
    graph = net.graph(net.add("MUL", [y, b], (1, 3)))
    with pytest.raises(OptionError, match="got none of the 2 weights"):
        select(LoweredGraphs(graph), INFO, Selection(bias_only=True))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            Selection(("FULLY_CONECTED",)),
            "`patterns=`: must match the name or the operator of a weight, but got FULLY_CONECTED, "
            "which matches none. Similar names: FULLY_CONNECTED; `Model.summary..` lists all.",
        ),
        (Selection(freeze=("x1", "x0")), "`freeze=`: .* but got x0"),
        (
            Selection(("fully_conected",), ("x1", "X1")),
            "patterns=`, `freeze=`: .* but got fully_conected, X1, which match none. "
            "Similar names: FULLY_CONNECTED, x1",
        ),
        (Selection(("x1",), ("x1",)), "must leave something to train, but got none of the 5"),
    ],
)
def test_a_selection_that_selects_nothing_is_refused(selection: Selection, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        select(LoweredGraphs(network()), INFO, selection)


def odt(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


def weights(path: Path) -> dict[str, np.ndarray]:
    tensors = read_model(str(path)).graph.tensors
    return {t.name: t.data for t in tensors if t.data is not None and t.spec.dtype.kind == "f"}


def test_an_export_differs_in_the_selected_tensors_only(tmp_path: Path) -> None:
    before = weights(MODEL)
    name = next(iter(before))
    result = odt("train", MODEL, *DATA, "--trainable", name, "--export-circle", tmp_path / "m")
    assert f"\ntrains: {before[name].size:,} parameters in 1 tensor\n" in result.stdout
    after = weights(tmp_path / "m")
    assert [n for n in before if not np.array_equal(before[n], after[n])] == [name]


def test_resumed_training_has_the_same_selection(tmp_path: Path) -> None:
    first = tmp_path / "one.odt"
    through, rest = tmp_path / "through.circle", tmp_path / "rest.circle"
    odt("train", MODEL, *DATA, "--bias-only", "--epochs", 2, "--export-circle", through)
    odt("train", MODEL, *DATA, "--bias-only", "--epochs", 1, "--export-checkpoint", first)
    odt("train", MODEL, *DATA, "--checkpoint", first, "--epochs", 2, "--export-circle", rest)
    assert through.read_bytes() == rest.read_bytes()


def test_check_plan_and_inspect_say_what_is_selected() -> None:
    biases = sum(a.size for a in weights(MODEL).values() if a.ndim == 1)
    assert biases
    assert f"trains: {biases:,} parameters" in odt("check", MODEL, "--bias-only").stdout
    assert f"parameters: {biases:,} values" in odt("inspect", MODEL, "--bias-only").stdout
    words = " ".join(odt("plan", MODEL, "--bias-only").stdout.split())
    assert f"parameters {4 * biases:,} bytes" in words


def test_a_number_of_the_formula_trains_only_if_it_is_called_by_its_name() -> None:
    model = ModelBuilder()
    x = model.add_operator(
        "MUL", [model.add_input((1, 3)), model.add_constant(2.0, "factor")], (1, 3)
    )
    y = model.add_dense(x, 2)
    graph = parse_model(memoryview(model.build(y)), "model").graph
    info = TrainingInfo(loss="mean_squared_error", batch_size=2)

    def trained(selection: Selection) -> set[str]:
        with Trainer(graph, select(LoweredGraphs(graph), info, selection)) as trainer:
            return {graph.tensors[i].name for i in trainer.parameters.tensors}

    weights = trained(Selection())
    assert "factor" not in weights
    assert trained(Selection(patterns=("*",))) == weights
    assert trained(Selection(patterns=("fac*",))) == {"factor"}
