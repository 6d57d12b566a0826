"""`odt check`: it says beforehand whether a model will train."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.networks import Net
from support.paths import GOLDEN, MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.loss_probe import LossProbe
from odt.core.training.random_data import RandomData
from odt.core.training.self_test import self_test
from odt.core.training.trainer import Trainer
from odt.kernels.rows.lossdef import draw_classes, draw_values
from odt.kernels.rows.opdef import TensorSpec
from odt.training.checking import describe_refusals

FLOAT32 = np.dtype(np.float32)


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.mark.parametrize(
    "name",
    [
        "mlperf-tiny-resnet8-cifar10",
        "kws-yes-no-conv60x40",
        "tflm-magic-wand-float",
        "tflm-mnist-lstm-float",
    ],
)
def test_a_model_that_trains_passes(name: str) -> None:
    result = check(MODELS / f"{name}.tflite", "--batch-size", 4)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\nok  ") == 4
    assert result.stdout.endswith("The model can be trained.\n")


def test_data_files_are_used() -> None:
    folder = GOLDEN / "mnist"
    data = ("--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin")
    loss = ("--loss", "categorical-crossentropy", "--batch-size", 8)
    result = check(folder / "model.circle", *data, *loss)
    assert result.exit_code == 0, result.output
    assert "ok   loss: 3." in result.stdout  # the first recorded losses are around 3.1


def test_arithmetic_is_that_of_the_layers() -> None:
    """784 → 128 → 10: two FLOP a weight, and RELU, SOFTMAX one a value."""
    result = check(MLP_SM / "model.circle")
    assert f"{2 * (784 * 128 + 128 * 10) + 128 + 10:,} FLOP" in result.stdout


@pytest.mark.parametrize("options", [(), ("--batch-size", 48), ("--num-of-trainable-ops", 2)])
def test_memory_is_what_train_takes(options: tuple[object, ...]) -> None:
    folder = MLP_SM
    data = ("--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin")
    words = ["train", folder / "model.circle", *data, "--epochs", 1, *options]
    trained = CliRunner().invoke(main, [*map(str, words)])
    checked = check(folder / "model.circle", *options)
    block = re.compile("== memory ==.*?\n=====", re.DOTALL)
    assert block.findall(checked.stdout) == block.findall(trained.stdout) != []


@pytest.mark.parametrize(("asked", "tested"), [(64, 8), (3, 3)])
def test_few_samples_are_tested(asked: int, tested: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watched(Trainer):
        def __init__(self, graphs: LoweredGraphs, info: TrainingInfo, **options: Any) -> None:
            seen.append(info.batch_size)
            super().__init__(graphs, info, **options)

    monkeypatch.setattr("odt.core.training.self_test.Trainer", Watched)
    check(MLP_SM / "model.circle", "--batch-size", asked)
    assert seen == [tested]


def test_a_dead_network_is_found(tmp_path: Path) -> None:
    """RELU of what is always negative: no weight before it has a gradient."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 4))
    w = model.add_constant(np.zeros((3, 4), np.float32), "w")
    b = model.add_constant(np.full(3, -1, np.float32), "b")
    y = model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 3), fused_activation_function=1)
    model.write(tmp_path / "dead.circle", y)
    result = check(tmp_path / "dead.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 1
    assert "FAIL gradients: w is zero; b is zero" in result.stdout
    assert result.stdout.endswith("The model cannot be trained.\n")


def pruned(path: Path) -> Path:
    """A convolution with two channels of zeros, below a pooling: all values of a window tie."""
    model, rng = ModelBuilder("circle", seed=1), np.random.default_rng(0)
    w = rng.normal(size=(4, 3, 3, 1)).astype(np.float32)
    w[2:] = 0
    inputs = model.add_input((1, 10, 10, 1)), model.add_constant(w, "w")
    b = model.add_constant(np.array([0.1, 0.2, 0.3, 0.4], np.float32), "b")
    strides: dict[str, Any] = {"padding": 1, "stride_w": 1, "stride_h": 1}
    y = model.add_operator("CONV_2D", (*inputs, b), (1, 8, 8, 4), **strides)
    window: dict[str, Any] = {"padding": 1, "stride_w": 2, "stride_h": 2}
    window |= {"filter_width": 2, "filter_height": 2}
    y = model.add_operator("MAX_POOL_2D", (y,), (1, 4, 4, 4), **window)
    y = model.add_operator("RESHAPE", (y, model.add_constant([1, 64])), (1, 64))
    y = model.add_operator("SOFTMAX", (model.add_dense(y, 3),), (1, 3), beta=1.0)
    model.write(path, y)
    return path


@pytest.mark.parametrize("seed", range(4))
def test_ties_of_pruned_channels_are_unknown(seed: int, tmp_path: Path) -> None:
    result = check(pruned(tmp_path / "m.circle"), "--batch-size", 4, "--seed", seed)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("The model can be trained.\n")


def test_ties_hide_no_wrong_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = LossProbe.gradient
    monkeypatch.setattr(
        LossProbe, "gradient", lambda probe: {i: 1.1 * a for i, a in original(probe).items()}
    )
    result = check(pruned(tmp_path / "m.circle"), "--batch-size", 4)
    assert "FAIL finite differences: tensor" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize("options", [(), ("--bias-only",)])
def test_weights_that_begin_at_zero_train(options: Sequence[str], tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=1)
    w, b = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
    inputs = model.add_input((1, 4)), model.add_constant(w), model.add_constant(b)
    model.write(tmp_path / "m.circle", model.add_operator("FULLY_CONNECTED", inputs, (1, 2)))
    result = check(tmp_path / "m.circle", "--loss", "mean-squared-error", *options)
    assert "ok   one step: the loss falls from" in result.stdout
    assert result.stdout.endswith("The model can be trained.\n")


def test_a_weight_without_gradient_on_the_batch_is_unknown(tmp_path: Path) -> None:
    """A unit that is always off, beside others: other data may turn it on."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 4))
    w = model.add_constant(np.full((40, 4), 0.001, np.float32), "off")
    b = model.add_constant(np.full(40, -1e6, np.float32), "low")
    off = model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 40), fused_activation_function=1)
    y = model.add_operator("CONCATENATION", (off, model.add_dense(x, 40)), (1, 80), axis=1)
    model.write(tmp_path / "m.circle", model.add_dense(y, 3))
    result = check(tmp_path / "m.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 0, result.output
    assert "?    gradients: unknown: low is zero on this batch" in result.stdout
    assert "cannot be trained" not in result.stdout


def test_a_line_names_few_of_many_tensors(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_operator("LOG", [model.add_input((1, 4))], (1, 4))
    for k in range(60):
        w = model.add_constant(np.full((4, 4), 1e30, np.float32), f"a long name of the weight {k}")
        y = model.add_operator("FULLY_CONNECTED", [y, w, -1], (1, 4))
    model.write(tmp_path / "m.circle", model.add_operator("TANH", [y], (1, 4)))
    result = check(tmp_path / "m.circle", "--loss", "mean-squared-error")
    lines = [line for line in result.stdout.splitlines() if line.startswith(("FAIL", "?"))]
    assert lines
    assert max(map(len, lines)) < 600


def hard_to_start(path: Path, *, weight: float, bias: float, last: str) -> Path:
    """Two layers of which random inputs leave the first one off, or saturate the last operator."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 6))
    w = model.add_constant(model.rng.uniform(0, weight, (8, 6)).astype(np.float32), "w")
    b = model.add_constant(np.full(8, bias, np.float32), "b")
    y = model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 8), fused_activation_function=1)
    w = model.add_constant(model.rng.normal(0, weight, (3, 8)).astype(np.float32), "v")
    y = model.add_operator("FULLY_CONNECTED", [y, w, -1], (1, 3))
    model.write(path, model.add_operator(last, [y], (1, 3)))
    return path


@pytest.mark.parametrize(
    ("weight", "bias", "last"),
    [(1, -50, "TANH"), (15, 0, "SOFTMAX"), (25, 0, "LOGISTIC"), (8, 0, "TANH")],
    ids=["units off", "one class", "one side", "steep"],
)
@pytest.mark.parametrize("seed", range(3))
def test_random_values_that_do_not_suit_a_model_are_drawn_again(
    weight: float, bias: float, last: str, seed: int, tmp_path: Path
) -> None:
    path = hard_to_start(tmp_path / "m.circle", weight=weight, bias=bias, last=last)
    loss = ("--loss", "mean-squared-error") if last != "SOFTMAX" else ()
    result = check(path, *loss, "--seed", seed)
    assert result.exit_code == 0, result.output
    assert "FAIL" not in result.stdout


def test_random_values_outside_a_model_s_domain_are_drawn_again(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_operator("SQRT", [model.add_input((1, 6))], (1, 6))
    model.write(tmp_path / "m.circle", model.add_dense(y, 3))
    result = check(tmp_path / "m.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("The model can be trained.\n")


def test_a_model_too_large_to_test_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_WORK", "MAX_WORK_IN_FLOAT32"):
        monkeypatch.setattr(f"odt.core.training.self_test.{name}", 1000)
    result = check(MLP_SM / "model.circle")
    assert result.exit_code == 0
    assert "?    test: unknown: too large, " in result.stdout
    assert result.stdout.endswith("Unknown whether the model can be trained.\n")


def test_a_slow_model_is_tested_with_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which a forward pass of 8 samples leaves no time for a test, and one of 4 does."""
    seen = [0.0]
    passes: list[int] = []

    def clock() -> float:
        seen[0] += passes[-1] / 8 if passes else 0.0
        return seen[0]

    evaluate = Trainer.evaluate

    def counted(trainer: Trainer, data: Any, numbers: Any) -> Any:
        passes.append(len(numbers))
        return evaluate(trainer, data, numbers)

    monkeypatch.setattr(Trainer, "evaluate", counted)
    monkeypatch.setattr("odt.core.training.loss_probe.MAX_SECONDS", 10)
    monkeypatch.setattr(time, "process_time", clock)
    result = check(MLP_SM / "model.circle")
    assert passes[0] == 8
    assert passes[-1] == 4
    assert result.stdout.endswith("The model can be trained.\n")


def test_a_test_that_takes_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odt.core.training.loss_probe.MAX_SECONDS", 1e-5)
    result = check(MODELS / "tflm-magic-wand-float.tflite")
    assert result.exit_code == 0
    assert "?    test: unknown: the test would take too long" in result.stdout


@pytest.mark.parametrize(("work", "samples", "weights"), [(10**12, 8, 8), (2 * 10**7, 2, 2)])
def test_a_large_model_is_tested_with_fewer_samples_and_weights(
    work: int, samples: int, weights: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """784 → 128 → 10: 0.2 MFLOP a sample, and 0.1 a call for 5 calls."""
    monkeypatch.setattr("odt.core.training.self_test.MAX_WORK", work)
    seen: list[int] = []

    def read(data: RandomData, numbers: Any, *arrays: Any) -> None:
        seen.append(len(numbers))
        original(data, numbers, *arrays)

    original = RandomData.read
    monkeypatch.setattr(RandomData, "read", read)
    result = check(MLP_SM / "model.circle")
    assert "The model can be trained." in result.stdout
    assert f"differences: {weights} weights within" in result.stdout
    assert max(seen) == samples


def test_control_flow_that_odt_cannot_unroll_is_named() -> None:
    result = check(MODELS / "while_000.circle")
    assert result.exit_code == 1
    assert 'blocked: node 0 (WHILE), tensor 2 ("ofm1"): is control flow' in result.stdout
    assert result.stdout.endswith("The model cannot be trained.\n")


def blocked(model: ModelBuilder, path: Path, *outputs: int) -> list[str]:
    """What check says of a model that it refuses."""
    model.write(path / "m.circle", *outputs)
    result = check(path / "m.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 1
    assert result.stdout.endswith("\nThe model cannot be trained.\n")
    return result.stdout.splitlines()[:-1]


def test_every_blocking_node_is_named_with_its_reason(tmp_path: Path) -> None:
    """Each kind of node that odt cannot compute, one quantized layer, and two float layers last."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_dense(model.add_input((1, 4)), 4)
    y = model.add_operator("CUSTOM:FlexErf", (x,), (1, 4))
    y = model.add_operator("CUSTOM:Magic", (y,), (1, 4))
    y = model.add_operator("IF", (y,), (1, 4))
    kept = model.add_operator("VAR_HANDLE", (), (1,))
    y = model.add_operator("ADD", (y, kept), (1, 4))
    text = model.add_operator("CAST", (y,), (1, 4), dtype="int32")
    model.graph.tensors[text].type = code_of("TensorType", "STRING")
    y = model.add_operator("CAST", (text,), (1, 4))
    small = model.add_operator("FULLY_CONNECTED", (y, model.add_weight((4, 4), 4)), (1, 4))
    model.graph.tensors[small].type = code_of("TensorType", "INT8")
    model.quantize(small, [0.5], [0])
    y = model.add_operator("HASHTABLE_SIZE", (small,), (1, 4))
    begin = model.add_operator("ABS", (y,), (1, 4))
    z = model.add_dense(model.add_dense(begin, 3), 2)
    assert blocked(model, tmp_path, z) == [
        'blocked: node 1 (CUSTOM:FlexErf), tensor 4 ("tensor_4"): is a TensorFlow operator (Flex), '
        "which only TensorFlow computes",
        'blocked: node 2 (CUSTOM:Magic), tensor 5 ("tensor_5"): is a custom operator, which only '
        "its own library computes",
        'blocked: node 3 (IF), tensor 6 ("tensor_6"): is control flow that does not follow from '
        "constants",
        'blocked: node 4 (VAR_HANDLE), tensor 7 ("tensor_7"): refers to a variable without a '
        "constant as initial value in the file",
        'blocked: node 6 (CAST), tensor 9 ("tensor_9"): tensors must be real numbers, but got '
        'tensor 9 ("tensor_9") of STRING',
        'blocked: node 7 (CAST), tensor 10 ("tensor_10"): tensors must be real numbers, but got '
        'tensor 9 ("tensor_9") of STRING',
        'blocked: node 9 (HASHTABLE_SIZE), tensor 13 ("tensor_13"): keeps a table between runs',
        f"could train: 23 parameters, in the part made by odt cut {tmp_path}/m.circle "
        "--after tensor_13 --output part.circle",
    ]


def test_no_cut_is_named_where_no_weights_are_left(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_operator("CUSTOM:Magic", (model.add_input((1, 4)),), (1, 3))
    *_, cut = blocked(model, tmp_path, model.add_operator("TANH", (y,), (1, 3)))
    assert cut == "could train: none, because no weights precede or follow these operators"


def test_a_node_of_a_loop_is_named_once(tmp_path: Path) -> None:
    model = ModelBuilder("circle", seed=0)
    y = model.add_operator("CUSTOM:Magic", (model.add_input((1, 4)),), (1, 3))
    model.write(tmp_path / "m.circle", y)
    lowered = lower_model(read_model(tmp_path / "m.circle"))
    (node,) = lowered.graphs.unsupported
    again = replace(node, where="node 0 (CUSTOM:Magic), in the next iteration")
    other = replace(node, reason="another one")
    lines = describe_refusals([node, again, other], "")
    assert [line for line in lines if line.startswith("blocked")] == [
        f"blocked: {node}",
        f"blocked: {other}",
    ]


def test_a_cut_is_named_that_needs_an_input_shape(tmp_path: Path) -> None:
    """TOCO stores no shapes for what only TensorFlow's own operators know, such as Mfcc."""
    model = ModelBuilder("circle", seed=0)
    y = model.add_operator("CUSTOM:Mfcc", (model.add_input((1, 6)),), (1, 4))
    z = model.add_dense(y, 3)
    model.graph.tensors[y].shape = []
    *_, cut = blocked(model, tmp_path, z)
    assert cut == (
        f"could train: 15 parameters, in the part made by odt cut {tmp_path}/m.circle "
        "--after tensor_1 --output part.circle, if --input-shape gives the shape of tensor 1 "
        '("tensor_1")'
    )


def test_weights_before_a_blocking_operator_are_named(tmp_path: Path) -> None:
    """A CAST to integers is computed and lets no gradient through."""
    model = ModelBuilder("circle", seed=0)
    first = model.add_dense(model.add_input((1, 4)), 3)
    whole = model.add_operator("CAST", (first,), (1, 3), dtype="int32")
    model.write(
        tmp_path / "m.circle",
        model.add_dense(model.add_operator("CAST", (whole,), (1, 3)), 2),
    )
    result = check(tmp_path / "m.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].startswith("blocked: node 1 (CAST)")
    assert f'tensor {first} ("tensor_{first}") gets no gradient through it' in lines[1]
    assert lines[2] == 'not trained: tensor 1 ("dense_0/w"), tensor 2 ("dense_0/b")'
    assert lines[3] == "all weights train with: --num-of-trainable-ops 3"


def test_random_samples_depend_on_their_number_alone() -> None:
    data = RandomData(
        [TensorSpec((3,), FLOAT32)], [TensorSpec((5,), FLOAT32)], [draw_classes], seed=1
    )
    x, t = np.empty((4, 3), np.float32), np.empty((4, 5), np.float32)
    data.read(range(4), [x], [t])
    y, u = np.empty((2, 3), np.float32), np.empty((2, 5), np.float32)
    data.read(range(2, 4), [y], [u])
    np.testing.assert_array_equal(x[2:], y)
    np.testing.assert_array_equal(t[2:], u)
    np.testing.assert_array_equal(t.sum(axis=1), 1)


def test_inputs_with_a_usual_value_have_it() -> None:
    specs = [TensorSpec((3,), np.dtype(np.int32)), TensorSpec((1,), np.dtype(np.int32))]
    arrays = [np.empty((2, *s.shape), s.dtype) for s in specs]
    RandomData(specs, [], [], usual=(None, 16_000)).read([0, 1], arrays, [])
    assert arrays[0].max() <= 1
    assert (arrays[1] == 16_000).all()


def test_random_words_are_numbers_and_random_pixels_any() -> None:
    specs = [TensorSpec((400,), np.dtype(d)) for d in (np.float32, np.int32, np.uint8, np.int8)]
    arrays = [np.empty((1, 400), s.dtype) for s in specs]
    RandomData(specs, [], [], floats="words").read([0], arrays, [])
    ranges = [(int(a.min()), int(a.max())) for a in arrays]
    assert ranges[:2] == [(0, 1), (0, 1)]
    assert ranges[2] == pytest.approx((0, 255), abs=9)
    assert ranges[3] == pytest.approx((-128, 127), abs=9)


def test_a_model_that_takes_numbers_of_words_as_floats_passes(tmp_path: Path) -> None:
    """CAST → GATHER → mean: random reals are no rows of a table, 0 and 1 are."""
    model = ModelBuilder("circle", seed=0)
    words = model.add_operator("CAST", (model.add_input((1, 6)),), (1, 6), dtype="int32")
    table = model.add_weight((2, 4), 4, "table")
    y = model.add_operator("GATHER", (table, words), (1, 6, 4))
    y = model.add_operator("MEAN", (y, model.add_constant([1])), (1, 4))
    model.write(tmp_path / "words.circle", model.add_dense(y, 3))
    result = check(tmp_path / "words.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 0, result.output


def test_a_trained_window_before_a_spectrum_passes(tmp_path: Path) -> None:
    """Frames times a window → RFFT2D → absolute values and real parts; gradients in complex128."""
    model = ModelBuilder("tflite", seed=0)
    flat = model.add_input((1, 48)), model.add_constant([1, 3, 1, 16])
    x = model.add_operator("RESHAPE", flat, (1, 3, 1, 16))
    x = model.add_operator("MUL", (x, model.add_weight((16,), 1, "window")), (1, 3, 1, 16))
    frames = x, model.add_constant([1, 16])
    z = model.add_operator("RFFT2D", frames, (1, 3, 1, 9), dtype="complex64")
    parts = [model.add_operator(op, (z,), (1, 3, 1, 9)) for op in ("COMPLEX_ABS", "REAL")]
    y = model.add_operator("ADD", parts, (1, 3, 1, 9))
    y = model.add_operator("RESHAPE", (y, model.add_constant([1, 27])), (1, 27))
    model.write(tmp_path / "spectrum.tflite", model.add_dense(y, 3))
    result = check(tmp_path / "spectrum.tflite", "--loss", "mean-squared-error")
    assert result.exit_code == 0, result.output
    assert "ok   finite differences" in result.output


def test_a_model_whose_samples_depend_on_each_other_is_tested_with_the_batch_of_its_file() -> None:
    net = Net()
    y = net.dense(net.input(9, 5), 3)
    first = net.add("GATHER", (y, net.constant([0], np.int32)), (1, 3))
    graph = net.graph(net.add("SUB", (y, first), (9, 3)))
    data = RandomData([TensorSpec((5,), FLOAT32)], [TensorSpec((3,), FLOAT32)], [draw_values])
    weights = graph.nodes[0].inputs[1:2]
    info = TrainingInfo(loss="mean_squared_error", batch_size=9, trainable_tensors=weights)
    assert all(f.passed for f in self_test(LoweredGraphs(graph), info, data))


def test_options_of_the_steps_do_not_change_the_test() -> None:
    """Gradients and step are those of the loss: without clipping, averages, or rounded updates."""
    model = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
    plain = odt.check(model, trainable=odt.last(3), optimizer="sgd")
    options: dict[str, Any] = {"qas": True, "clip_norm": 1e-9, "accumulate": 2}
    changed = odt.check(model, trainable=odt.last(3), optimizer="sgd", **options)
    assert plain.findings == changed.findings
    assert plain
    assert changed
