"""odt.compat.ort: modules, states, optimizers and schedules."""

from collections.abc import Callable
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
    network,
    opened,
    with_optimizer,
)

import odt
from odt.compat import ort
from odt.compat.ort import artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, LinearLRScheduler, Module, Optimizer


def test_gradients_are_summed_until_the_step_after_their_reset(tmp_path: Path) -> None:
    folder = generate(tmp_path, optimizer=artifacts.OptimType.SGD)
    state, module, optimizer = with_optimizer(folder, 0.1)
    w1 = state.parameters["w1"]
    assert w1.grad is None
    module(X[:6], LABELS[:6])
    first = np.array(w1.grad)
    module(X[6:], LABELS[6:])
    summed = np.array(w1.grad)
    assert not np.allclose(summed, first)
    module.lazy_reset_grad()
    np.testing.assert_array_equal(w1.grad, summed)  # the reset is lazy
    module(X[:6], LABELS[:6])
    np.testing.assert_array_equal(w1.grad, first)
    before = w1.data
    optimizer.step()
    np.testing.assert_allclose(w1.data, before - 0.1 * first, rtol=1e-6)
    np.testing.assert_array_equal(w1.grad, first)  # a step keeps the gradients


def test_without_a_reset_the_sum_goes_on_after_an_update(tmp_path: Path) -> None:
    state, module, optimizer = with_optimizer(generate(tmp_path, optimizer=artifacts.OptimType.SGD))
    optimizer.set_learning_rate(0)  # the weights stay
    module(X, LABELS)
    one = np.array(state.parameters["w0"].grad)
    for k in (2, 3):
        optimizer.step()
        module(X, LABELS)
        np.testing.assert_allclose(np.array(state.parameters["w0"].grad), k * one, rtol=1e-6)
    optimizer.step()
    with pytest.raises(odt.TrainingError, match="none since the last update"):
        optimizer.step()


def test_large_steps_in_parts_are_one_step(tmp_path: Path) -> None:
    found = []
    for name, size in (("whole", 12), ("parts", 5)):
        (tmp_path / name).mkdir()
        folder = generate(tmp_path / name, batch_size=size)
        state, module, optimizer = with_optimizer(folder)
        losses = []
        for _ in range(3):
            losses.append(module(X, LABELS))
            optimizer.step()
            module.lazy_reset_grad()
        found.append([*losses, module.eval()(X, LABELS), *copied(state).values()])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch_size", [5, 12])
def test_a_bad_sample_changes_no_gradient(batch_size: int, tmp_path: Path) -> None:
    state, module = opened(generate(tmp_path, batch_size=batch_size))
    module(X, LABELS)
    before = np.array(state.parameters["w0"].grad)
    labels = LABELS.copy()
    labels[11] = 3
    with pytest.raises(odt.DataError, match="sample 11"):
        module(X, labels)
    np.testing.assert_array_equal(state.parameters["w0"].grad, before)


def test_a_loss_that_is_not_finite_discards_the_gradients(tmp_path: Path) -> None:
    state, module = opened(generate(tmp_path, artifacts.LossType.MSELoss))
    module(X, VALUES)
    with pytest.raises(odt.TrainingError, match="the loss must be finite"):
        module(X * np.float32(1e30), VALUES)
    assert state.parameters["w0"].grad is None


def test_resuming_with_the_optimizer_computes_the_same_bits(tmp_path: Path) -> None:
    def run(module: Module, optimizer: Optimizer) -> Any:
        losses = []
        for _ in range(3):
            losses.append(module(X, LABELS))
            optimizer.step()
            module.lazy_reset_grad()
        return losses

    folder = generate(tmp_path)
    state, module, optimizer = with_optimizer(folder)
    run(module, optimizer)
    state.properties["epoch"], state.properties["lr"] = 3, 0.1
    for name, whole in (("whole", True), ("weights", False)):
        CheckpointState.save_checkpoint(state, tmp_path / name, include_optimizer_state=whole)
    wanted = run(module, optimizer)
    for name, equal in (("whole", True), ("weights", False)):
        again, module = opened(folder, tmp_path / name)
        optimizer = Optimizer(folder / "optimizer_model.json", module)
        optimizer.set_learning_rate(0.1)
        found = run(module, optimizer)
        assert found[0] == wanted[0]
        assert (found == wanted) == equal
        assert dict(again.properties) == {"epoch": 3, "lr": 0.1}
        assert again.odt_state.step == (6 if equal else 3)


def test_a_nominal_checkpoint_waits_for_its_parameters(tmp_path: Path) -> None:
    folder = generate(tmp_path, nominal_checkpoint=True)
    _, full, optimizer = with_optimizer(folder)
    full(X, LABELS)
    optimizer.step()
    state, module = opened(folder, folder / "nominal_checkpoint")
    calls: list[Callable[[], object]] = [
        lambda: module(X, LABELS),
        lambda: module.eval()(X, LABELS),
        lambda: module.export_model_for_inferencing(tmp_path / "n.tflite", ["y"]),
        lambda: CheckpointState.save_checkpoint(state, tmp_path / "state"),
    ]
    for call in calls:
        with pytest.raises(odt.ModelError, match=r"nominal.* Set them.*copy_buffer_to_parameters"):
            call()
    assert state.parameters["w0"].grad is None
    module.copy_buffer_to_parameters(full.get_contiguous_parameters())
    assert module.eval()(X, LABELS) == full.eval()(X, LABELS)


def test_a_federated_round_moves_buffers(tmp_path: Path) -> None:
    """The mean of two clients' buffers is the mean of their parameters, name by name."""
    folder, clients = generate(tmp_path), []
    for rows in (slice(6), slice(6, 12)):
        state, module, optimizer = with_optimizer(folder)
        module(X[rows], LABELS[rows])
        optimizer.step()
        clients.append((state, module.get_contiguous_parameters().numpy()))
    mean = (clients[0][1] + clients[1][1]) / 2
    state, module = opened(folder)
    module.copy_buffer_to_parameters(ort.OrtValue.ortvalue_from_numpy(mean))
    for name, a in copied(state).items():
        wanted = (clients[0][0].parameters[name].data + clients[1][0].parameters[name].data) / 2
        np.testing.assert_array_equal(a, wanted)


def test_calls_return_what_the_arguments_are(tmp_path: Path) -> None:
    _, module = opened(generate(tmp_path, additional_output_names=["y"]))
    loss, y = module(X, LABELS)
    assert (loss.shape, loss.dtype, y.shape) == ((), np.float32, (12, 3))
    wrapped = module(*map(ort.OrtValue.ortvalue_from_numpy, (X, LABELS)))
    assert [value.shape() for value in wrapped] == [[], [12, 3]]
    np.testing.assert_array_equal(wrapped[1].numpy(), y)
    with odt.Trainer(tmp_path / "net.tflite", loss="mse") as trainer:
        np.testing.assert_allclose(y, trainer.predict(X), rtol=1e-6)
    assert module.output_names() == ["loss", "y"]
    assert (module.training, module.eval().training, module.train().training) == (True, False, True)


def test_one_of_several_outputs_has_the_loss(tmp_path: Path) -> None:
    model = network(tmp_path / "two.tflite", outputs=2)
    outputs = [t.name for t in odt.load_model(model).outputs]
    with pytest.raises(
        odt.OptionError, match=rf"must be one output .*got {outputs[0]}, {outputs[1]}"
    ):
        generate(tmp_path, model=model)
    folder = generate(
        tmp_path, model=model, loss_input_names=["y"], additional_output_names=["h", "y"]
    )
    _, module, optimizer = with_optimizer(folder)
    loss, h, y = module(X, LABELS)
    assert (h.shape, y.shape) == ((12, 5), (12, 3))
    _, alone = opened(generate(tmp_path))
    assert loss == alone(X, LABELS)
    optimizer.step()
    module.export_model_for_inferencing(tmp_path / "out.circle", ["h", "y"])
    assert [t.name for t in odt.load_model(tmp_path / "out.circle").outputs] == outputs


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_each_position_of_a_sequence_has_a_label(reduction: str, tmp_path: Path) -> None:
    builder = ModelBuilder("tflite", seed=4)
    x = builder.add_input((1, 4, 6), name="x")
    inputs = [x, builder.add_weight((3, 6), 6, "w"), builder.add_constant(np.zeros(3, np.float32))]
    y = builder.add_operator("FULLY_CONNECTED", inputs, (1, 4, 3), keep_num_dims=True)
    builder.write(tmp_path / "sequence.tflite", y)
    loss = onnxblock.loss.CrossEntropyLoss(reduction=reduction)
    folder = generate(tmp_path, loss, model=tmp_path / "sequence.tflite", batch_size=2)
    state, module = opened(folder)
    x_values = np.random.default_rng(1).normal(size=(5, 4, 6)).astype(np.float32)
    labels = np.arange(20).reshape(5, 4) % 3
    logits = x_values.reshape(20, 6).astype(np.float64) @ state.parameters["w"].data.T
    each = np.log(np.exp(logits).sum(1)) - logits[range(20), labels.reshape(-1)]
    wanted = each.mean() if reduction == "mean" else each.sum()
    assert module(x_values, labels) == pytest.approx(wanted, rel=1e-5)
    assert module.eval()(x_values, labels) == pytest.approx(wanted, rel=1e-5)


def test_the_exported_model_has_the_trained_parameters(tmp_path: Path) -> None:
    state, module, optimizer = with_optimizer(generate(tmp_path, requires_grad=HEAD))
    module(X, LABELS)
    optimizer.step()
    module.export_model_for_inferencing(tmp_path / "trained.tflite", ["y"])
    exported = odt.load_model(tmp_path / "trained.tflite").parameters
    before = odt.load_model(tmp_path / "net.tflite").parameters
    for name, a in copied(state).items():
        np.testing.assert_array_equal(exported[name], a)
        assert np.array_equal(exported[name], before[name]) == (name in FIRST)
    with pytest.raises(odt.ModelError, match=r"trained.onnx: must be the name of a .tflite or"):
        module.export_model_for_inferencing(tmp_path / "trained.onnx", ["y"])


def test_frozen_parameters_do_not_train_and_can_be_set(tmp_path: Path) -> None:
    folder = generate(tmp_path, frozen_params=FIRST)
    assert sorted(copied(CheckpointState.load_checkpoint(folder / "checkpoint"))) == sorted(HEAD)
    state, module = opened(folder)
    assert [name for name, p in state.parameters if p.requires_grad] == sorted(HEAD)
    assert sorted(copied(state)) == sorted(FIRST + HEAD)
    assert (len(state.parameters), "w0" in state.parameters) == (4, True)
    before = module.eval()(X, LABELS)
    state.parameters["w0"] = np.zeros((5, 6), np.float32)
    assert not copied(state)["w0"].any()
    assert module(X, LABELS) != before


def test_parameters_are_set_through_the_state(tmp_path: Path) -> None:
    state, module = opened(generate(tmp_path))
    before = module.eval()(X, LABELS)
    kept = state.parameters["w1"].data
    kept[...] = 0  # a copy
    assert module(X, LABELS) == before
    state.parameters["w1"].data = kept
    state.parameters["b1"] = np.zeros(3, np.float32)
    assert module(X, LABELS) == pytest.approx(np.log(3))
    with pytest.raises(KeyError, match="w7: must be one of b0, b1, w0, w1"):
        state.parameters["w7"]
    with pytest.raises(odt.DataError, match=r"w1: must be \(3, 5\) float32, but got \(5, 3\)"):
        state.parameters["w1"] = np.zeros((5, 3), np.float32)


def test_properties_are_numbers_and_strings(tmp_path: Path) -> None:
    state, _ = opened(generate(tmp_path))
    state.properties["name"] = "kitchen"
    assert ("name" in state.properties, len(state.properties)) == (True, 1)
    assert list(state.properties) == [("name", "kitchen")]
    bad: Any = [1]
    with pytest.raises(odt.OptionError, match="name must be a string, integer or float"):
        state.properties["name"] = bad


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((5, 4, 0.1), r"^`warmup_step_count=`: must be at most total_step_count, 4, but got 5"),
        ((-1, 4, 0.1), r"^`warmup_step_count=`: must be a whole number"),
        ((1, 0, 0.1), r"^`total_step_count=`: must be a whole number of at least 1"),
        ((1, 4, 0.0), r"^`learning_rate=`: must be a number above 0"),
    ],
)
def test_impossible_schedules_are_refused(
    numbers: tuple[int, int, float], message: str, tmp_path: Path
) -> None:
    _, _, optimizer = with_optimizer(generate(tmp_path))
    with pytest.raises(odt.OptionError, match=message):
        LinearLRScheduler(optimizer, *numbers)


def test_a_schedule_goes_on_after_resuming(tmp_path: Path) -> None:
    folder = generate(tmp_path)
    state, module, optimizer = with_optimizer(folder)
    schedule = LinearLRScheduler(optimizer, 0, 4, 0.1)
    for _ in range(3):
        module(X, LABELS)
        optimizer.step()
        schedule.step()
    CheckpointState.save_checkpoint(state, tmp_path / "s", include_optimizer_state=True)
    _, again = opened(folder, tmp_path / "s")
    resumed = Optimizer(folder / "optimizer_model.json", again)
    LinearLRScheduler(resumed, 0, 4, 0.1)
    assert resumed.get_learning_rate() == optimizer.get_learning_rate() == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(X), "^Module: must be called with x, labels, but got 1 value"),
        (lambda m: m(X, LABELS[:6]), "same number of samples, but got x: 12 of .*, y: 6 of"),
        (lambda m: m(X[:, :5], LABELS), r"^x: a sample must have 6 elements"),
        (lambda m: m(X, LABELS.astype(np.float32)), "^labels: must be class numbers .* float32"),
        (lambda m: m(X, 3), r"a sample must have 1 elements \(\), but the array is \(\)"),
        (lambda m: m(X[:0], LABELS[:0]), "must hold samples"),
    ],
)
def test_bad_calls_are_refused(
    call: Callable[[Module], object], message: str, tmp_path: Path
) -> None:
    _, module = opened(generate(tmp_path))
    with pytest.raises(odt.DataError, match=message):
        call(module)


def test_other_devices_and_options_of_sessions_are_refused(tmp_path: Path) -> None:
    folder = generate(tmp_path)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    for options, rule in (
        ({"device": "cuda:0"}, "`device=`: must be cpu, but got cuda:0"),
        ({"session_options": 1}, "`session_options=`: must be None, but got 1. Give `workers="),
    ):
        more: dict[str, Any] = dict(options)
        with pytest.raises(odt.OptionError, match=rule):
            Module(folder / "training_model.json", state, **more)
    with Module(folder / "training_model.json", state, device="cpu:0", workers=1) as module:
        assert module(X, LABELS) > 0
