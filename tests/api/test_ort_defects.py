"""Twelve defects of onnxruntime-training 1.19.2 that odt.compat.ort does not have.

Each was reproduced there; the docstrings say what ONNX Runtime does.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.ort_artifacts import (
    FIRST,
    HEAD,
    LABELS,
    VALUES,
    X,
    copied,
    generate,
    opened,
    with_optimizer,
)

import odt
from odt.compat.ort import artifacts
from odt.compat.ort.api import LinearLRScheduler
from odt.compat.ort.onnxblock.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss


def log_softmax(logits: Any) -> Any:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_1_cross_entropy_has_class_weights(reduction: str, tmp_path: Path) -> None:
    """1.19.2: ValueError, the truth value of an array is ambiguous."""
    weight = np.array([0.5, 2.0, 1.0])
    folder = generate(
        tmp_path,
        CrossEntropyLoss(weight, reduction),
        additional_output_names=["y"],
    )
    _, module = opened(folder)
    loss, logits = module.eval()(X, LABELS)
    w = weight[LABELS]
    total = -(w * log_softmax(logits.astype(np.float64))[range(12), LABELS]).sum()
    wanted = total / w.sum() if reduction == "mean" else total
    assert loss == pytest.approx(wanted, rel=1e-5)
    assert module.train()(X, LABELS)[0] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("loss", [MSELoss, L1Loss, BCEWithLogitsLoss, CrossEntropyLoss])
def test_2_the_loss_of_each_sample_has_a_function(loss: Any, tmp_path: Path) -> None:
    """1.19.2: reduction="none" raises TypeError; a step needs one number in any case."""
    rule = r"must be mean or sum, but got none. `odt.sample_losses` returns"
    with pytest.raises(odt.OptionError, match=rule):
        loss(reduction="none")
    _, module = opened(generate(tmp_path, loss()))
    targets = LABELS if loss is CrossEntropyLoss else (VALUES > 0).astype(np.float32)
    each = odt.sample_losses(module.trainer, X, targets)
    assert each.shape == (12,)
    assert module(X, targets) == pytest.approx(each.mean(), rel=1e-5)


def test_3_collections_can_be_printed(tmp_path: Path) -> None:
    """1.19.2: TypeError, __repr__ returned non-string."""
    state, _ = opened(generate(tmp_path))
    state.properties["round"] = 3
    assert repr(state.parameters) == "Parameters(b0, b1, w0, w1)"
    assert repr(state.properties) == "Properties({'round': 3})"
    assert repr(state.parameters["w0"]) == "Parameter(name=w0, requires_grad=True)"


def test_4_large_logits_have_a_finite_loss(tmp_path: Path) -> None:
    """1.19.2: logit −400 with target 1 gives inf, +400 NaN, and then all weights are NaN."""
    folder = generate(tmp_path, artifacts.LossType.BCEWithLogitsLoss)
    state, module, optimizer = with_optimizer(folder)
    x = np.zeros((2, 6), np.float32)
    state.parameters["b1"] = np.array([-400, 400, 0], np.float32)
    state.parameters["w1"] = np.zeros((3, 5), np.float32)
    loss = module(x, np.array([[1, 0, 1]] * 2, np.float32))
    assert loss == pytest.approx((400 + 400 + np.log(2)) / 3)
    optimizer.step()
    assert all(np.isfinite(a).all() for a in copied(state).values())


def test_5_the_schedule_has_its_numbers_in_order(tmp_path: Path) -> None:
    """1.19.2: warm-up 2 and total 10 act as warm-up 10 and total 2."""
    _, module, optimizer = with_optimizer(generate(tmp_path))
    schedule, rates = LinearLRScheduler(optimizer, 2, 10, 0.1), []
    for _ in range(12):
        rates.append(optimizer.get_learning_rate())
        module(X, LABELS)
        optimizer.step()
        schedule.step()
        module.lazy_reset_grad()
    wanted = [0, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0, 0]
    np.testing.assert_allclose(rates, np.array(wanted) / 10, atol=1e-12)


@pytest.mark.parametrize("bad", [3, 1000, -1])
def test_6_labels_out_of_range_are_refused(bad: int, tmp_path: Path) -> None:
    """1.19.2: memory that belongs to others is read, and the loss is 2e-23."""
    _, module = opened(generate(tmp_path))
    labels = LABELS.copy()
    labels[7] = bad
    for module.training in (True, False):
        with pytest.raises(odt.DataError, match=rf"sample 7: labels must be 0 … 2, but got {bad}"):
            module(X, labels)


def test_7_training_nothing_is_refused(tmp_path: Path) -> None:
    """1.19.2: list index out of range."""
    rule = r"^`requires_grad=`: must name a parameter, but got none. The model has .*w0.*b1"
    with pytest.raises(odt.OptionError, match=rule):
        generate(tmp_path, requires_grad=[])
    with pytest.raises(odt.OptionError, match="must leave something to train"):
        generate(tmp_path, frozen_params=FIRST + HEAD)


def test_8_all_operators_that_cannot_train_are_named(tmp_path: Path) -> None:
    """1.19.2: a C++ signature, no node's name, and only the first of all operators."""
    builder = ModelBuilder("tflite")
    x = builder.add_dense(builder.add_input((1, 6)), 4)
    x = builder.add_operator("CUSTOM:mine", [x], (1, 4))
    x = builder.add_dense(builder.add_operator("UNIQUE", [x], (1, 4)), 3)
    builder.write(tmp_path / "other.tflite", x)
    with pytest.raises(odt.UnsupportedError) as error:
        generate(tmp_path, model=tmp_path / "other.tflite")
    for words in ("node 1 (CUSTOM:mine)", "node 2 (UNIQUE)", '"tensor_', "custom operator"):
        assert words in str(error.value)
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize("op", ["HARD_SWISH", "ELU", "PRELU"])
def test_8_operators_that_onnx_runtime_cannot_train(op: str, tmp_path: Path) -> None:
    builder = ModelBuilder("tflite")
    x = builder.add_dense(builder.add_input((1, 6)), 4)
    slope = [builder.add_constant(np.full(4, 0.2, np.float32))] if op == "PRELU" else []
    x = builder.add_operator(op, [x, *slope], (1, 4))
    builder.write(tmp_path / "other.tflite", builder.add_dense(x, 3))
    _, module, optimizer = with_optimizer(generate(tmp_path, model=tmp_path / "other.tflite"))
    first = module(X, LABELS)
    optimizer.step()
    assert module.eval()(X, LABELS) < first


def test_9_a_wrong_output_name_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    """1.19.2: a hint to generate the evaluation graph again."""
    _, module = opened(generate(tmp_path))
    rule = r"must be all outputs of the model, \['y'\], but got \['output'\]"
    with pytest.raises(odt.OptionError, match=rule):
        module.export_model_for_inferencing(tmp_path / "n.tflite", ["output"])
    module.export_model_for_inferencing(tmp_path / "n.tflite", ["y"])
    assert odt.load_model(tmp_path / "n.tflite").outputs[0].name == "y"


def test_10_batch_normalization_is_the_same_in_training_and_evaluation(tmp_path: Path) -> None:
    """1.19.2: trained with the statistics of the batch, or the evaluation graph does not load."""
    builder = ModelBuilder("tflite")
    x = builder.add_dense(builder.add_input((1, 6)), 4)
    gain = builder.add_constant(np.array([2, 3, 4, 5], np.float32), "norm/gain")
    x = builder.add_operator("MUL", [x, gain], (1, 4))
    shift = builder.add_constant(np.array([1, 2, 3, 4], np.float32), "norm/shift")
    x = builder.add_dense(builder.add_operator("ADD", [x, shift], (1, 4)), 3)
    builder.write(tmp_path / "norm.tflite", x)
    frozen = ["norm/gain", "norm/shift"]
    folder = generate(tmp_path, model=tmp_path / "norm.tflite", frozen_params=frozen)
    state, module, optimizer = with_optimizer(folder)
    before = copied(state)
    for _ in range(3):
        evaluated = module.eval()(X, LABELS)
        assert module.train()(X, LABELS) == pytest.approx(evaluated, rel=1e-6)
        optimizer.step()
        module.lazy_reset_grad()
    for name in frozen:
        np.testing.assert_array_equal(state.parameters[name].data, before[name])


def test_11_buffers_go_out_and_in_with_the_same_defaults(tmp_path: Path) -> None:
    """1.19.2: all parameters out, only those that train in: expected 15, got 53."""
    state, module, optimizer = with_optimizer(generate(tmp_path, requires_grad=HEAD))
    buffer, before = module.get_contiguous_parameters(), copied(state)
    assert buffer.shape() == [18] == [module.get_parameters_size()]
    assert module.get_parameters_size(trainable_only=False) == 53
    module(X, LABELS)
    optimizer.step()
    assert not np.array_equal(state.parameters["w1"].data, before["w1"])
    module.copy_buffer_to_parameters(buffer)
    for name, a in copied(state).items():
        np.testing.assert_array_equal(a, before[name])
    whole = module.get_contiguous_parameters(trainable_only=False)
    module.copy_buffer_to_parameters(whole, trainable_only=False)
    with pytest.raises(odt.DataError, match=r"must be \(18,\) float32 .* but got \(53,\)"):
        module.copy_buffer_to_parameters(whole)


def test_12_labels_have_any_integer_type_and_one_hot_rows_get_a_hint(tmp_path: Path) -> None:
    """1.19.2: int32 and one-hot labels raise a C++ error about types."""
    _, module = opened(generate(tmp_path))
    module.eval()
    loss = module(X, LABELS)
    for dtype in (np.int32, np.uint8, np.int16):
        assert module(X, LABELS.astype(dtype)) == loss
    rows = np.eye(3)[LABELS]
    for one_hot in (rows, rows.astype(int)):
        with pytest.raises(odt.DataError, match=r"^labels: must be class numbers \(N\), .*argmax"):
            module(X, one_hot)
