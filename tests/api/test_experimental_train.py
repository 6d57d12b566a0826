"""odt.experimental.train: scripts written for onert run with only their import changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.onert_party import HAVE_ONERT
from support.paths import MLP_SM, TESTS

from odt.core.export.exporter import add_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.errors import DataError, ModelError, OptionError
from odt.experimental import train
from odt.experimental.train import losses, metrics
from odt.experimental.train import optimizer as optimizers
from odt.experimental.train.info import loss, optimizer, trainable_ops
from odt.kernels.registry import LOSSES, METRICS, OPTIMIZERS

SCRIPTS = TESTS / "onert_scripts"
LINE = (
    "-m m.circle -i x.bin -l t.bin --data_length 96 --epoch 3 --optimizer adam --batch_size 20 "
    "--learning_rate 0.005 --loss cce --validation_split 0.25 --checkpoint k.ckpt"
)


def run(script: str, party: str, words: str, folder: Path) -> str:
    """What a script prints in a folder with m.circle, x.bin and t.bin, its import changed."""
    for name, target in (("model.circle", "m"), ("input.bin", "x"), ("expected.bin", "t")):
        shutil.copy(MLP_SM / name, folder / f"{target}{Path(name).suffix}")
    text = (SCRIPTS / script).read_text()
    changed = re.sub(r"^from onert\.", f"from {party}.", text, flags=re.MULTILINE)
    (folder / "script.py").write_text(changed)
    command = [sys.executable, "script.py", *words.split()]
    env = {**os.environ, "CPU_MEMORY_PLANNER": "Bump"}  # onert's others reuse live memory
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"(?:Loss: |^)(\d+\.\d+)", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("script", "words", "count"),
    [
        ("train_with_dataset.py", LINE, 6),
        ("train_with_dataset.py", f"{LINE} --loss mse --optimizer sgd", 6),
        ("train_with_dataset.py", f"{LINE} --loss_reduction_type sum", 6),
        ("train_step_with_dataset.py", "-1", 13),
        ("train_step_with_dataset.py", "2", 13),
    ],
)
def test_a_script_runs_with_only_the_import_changed(
    script: str, words: str, count: int, tmp_path: Path
) -> None:
    ours = run(script, "odt", words, tmp_path)
    found = numbers(ours)
    assert len(found) == count
    checkpoint = (tmp_path / "k.ckpt").read_bytes()
    if not HAVE_ONERT:
        pytest.skip("onert has wheels for Linux on x86-64 and aarch64, Python 3.10 to 3.12")
    theirs = run(script, "onert", words, tmp_path)
    np.testing.assert_allclose(found, numbers(theirs), rtol=1e-4, atol=1.01e-4)
    assert len(checkpoint) == len((tmp_path / "k.ckpt").read_bytes())
    masked = [re.sub(r"\d+\.\d+", "#", text) for text in (ours, theirs)]
    assert masked[0] == masked[1]


def compiled(path: Path | None = None, **more: Any) -> train.session:
    s = train.session(path or MLP_SM / "model.circle")
    arguments = {"optimizer": "sgd", "loss": "mean_squared_error", "batch_size": 8, **more}
    s.compile(**arguments)
    return s


def batch(samples: int = 8) -> tuple[list[np.ndarray], list[np.ndarray]]:
    x = np.fromfile(MLP_SM / "input.bin", "<f4").reshape(96, -1)[:samples]
    t = np.fromfile(MLP_SM / "expected.bin", "<f4").reshape(96, -1)[:samples]
    return [x], [t]


def test_the_metric_is_that_of_the_outputs() -> None:
    """onert leaves the output arrays as they are, so its accuracy is that of zeros."""
    s = compiled(metrics=["categorical_accuracy"])
    x, t = batch()
    y = np.zeros_like(t[0])
    s.session.train_set_input(0, x[0])
    s.session.train_set_expected(0, t[0])
    s.session.train_set_output(0, y)
    s.session.train(update_weights=False)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)
    wanted = float(np.mean(y.argmax(1) == t[0].argmax(1)))
    assert s.eval_step(x, t)["metrics"] == {"CategoricalAccuracy": wanted}
    assert s.eval_step(x, t)["loss"] == [pytest.approx(float(np.mean((y - t[0]) ** 2)), rel=1e-5)]


def test_arrays_of_any_dtype_and_layout_are_read_as_they_are() -> None:
    """onert reads the memory of all as packed float32."""
    s = compiled()
    x, t = batch()
    wanted = s.eval_step(x, t)["loss"]
    wide = np.zeros((8, 2 * 784), np.float32)
    wide[:, ::2] = x[0]
    for other in (x[0].astype(np.float64), wide[:, ::2], np.asfortranarray(x[0])):
        assert s.eval_step([other], t)["loss"] == wanted
    assert s.eval_step(x, [t[0].astype(np.int64)])["loss"] == wanted


def test_a_short_batch_weighs_by_its_samples() -> None:
    s = compiled()
    x, t = batch(8)
    parts = [s.eval_step([x[0][k]], [t[0][k]])["loss"][0] for k in (slice(3), slice(3, 8))]
    assert s.eval_step(x, t)["loss"][0] == pytest.approx((3 * parts[0] + 5 * parts[1]) / 8)


def test_adam_s_betas_count() -> None:
    losses = []
    for rule in (train.optimizer.Adam(0.01), train.optimizer.Adam(0.01, beta1=0.0)):
        s = compiled(optimizer=rule)
        losses.append([s.train_step(*batch())["loss"][0] for _ in range(4)])
    assert losses[0][:2] == losses[1][:2]
    assert losses[0][3] != losses[1][3]


@pytest.mark.parametrize("where", ["optimizer", "train_info"])
def test_an_assigned_learning_rate_counts_from_the_next_step(where: str) -> None:
    fixed, changed = (compiled(optimizer=train.optimizer.SGD(0.1)) for _ in range(2))
    assert changed.train_step(*batch())["loss"] == fixed.train_step(*batch())["loss"]
    getattr(changed, where).learning_rate = 1e-30
    assert changed.train_step(*batch())["loss"] == fixed.train_step(*batch())["loss"]
    assert changed.train_step(*batch())["loss"] != fixed.train_step(*batch())["loss"]
    assert changed.eval_step(*batch())["loss"] == changed.train_step(*batch())["loss"]
    getattr(changed, where).learning_rate = -1.0
    with pytest.raises(OptionError, match="must be a number above 0, but got -1"):
        changed.train_step(*batch())


def test_compile_keeps_trained_weights(tmp_path: Path) -> None:
    s = compiled(optimizer=train.optimizer.SGD(0.1))
    for _ in range(3):
        s.train_step(*batch())
    loss = s.eval_step(*batch())["loss"]
    last = train.optimizer.SGD(0.1)
    last.nums_trainable_ops = 1
    s.compile(optimizer=last, loss="mean_squared_error", batch_size=8)
    assert s.eval_step(*batch())["loss"] == loss
    s.train_export_circle(str(tmp_path / "trained.circle"))
    again = train.session(str(tmp_path / "trained.circle"))
    again.compile(optimizer=last, loss="mean_squared_error", batch_size=8)
    assert again.eval_step(*batch())["loss"] == loss


def test_training_info_of_a_circle_plus_is_there_and_exported(tmp_path: Path) -> None:
    s = compiled(optimizer=train.optimizer.Adam(0.01, beta2=0.5), loss="categorical_crossentropy")
    path = tmp_path / "a name of more than fifteen bytes.circle"
    s.train_export_circleplus(path)
    info = train.session(path).train_info
    assert (info.learning_rate, info.batch_size) == (0.01, 8)
    assert info.loss_info.loss is loss.CATEGORICAL_CROSSENTROPY
    assert info.num_of_trainable_ops == trainable_ops.ALL
    stored = stored_training_info(read_model(path))
    assert stored is not None
    assert stored.hyper_parameters["beta_2"] == 0.5
    native = train.session(path).session
    native.train_prepare()  # with what the file says
    assert native.input_tensorinfo(0).dims == [8, 784]
    assert native.input_tensorinfo(0).shape == (8, 784)
    assert native.output_tensorinfo(0).dtype == np.float32


def test_a_circle_plus_with_sparse_labels_trains_though_onert_has_no_number_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "sparse.circle"
    info = TrainingInfo(loss="sparse_categorical_crossentropy", batch_size=8, trainable_ops=(0,))
    add_training_info(read_model(MLP_SM / "model.circle"), info, path)
    native = train.session(path).session
    read = native.train_get_traininfo()
    assert read.loss_info.loss is loss.UNDEFINED
    assert read.num_of_trainable_ops == trainable_ops.INCORRECT_STATE
    native.train_prepare()
    x, t = batch()
    native.train_set_input(0, x[0])
    native.train_set_expected(0, t[0].argmax(1))
    native.train()
    native.train_set_expected(0, t[0].argmax(1).astype(np.int32))
    before = native.train_get_loss(0)
    native.train()
    assert native.train_get_loss(0) < before


def test_a_model_without_training_info_has_zeros() -> None:
    info = train.session(MLP_SM / "model.circle").train_info
    assert (info.learning_rate, info.batch_size, info.opt, info.loss_info.loss) == (0, 0, 0, 0)
    assert train.traininfo() == train.traininfo(0.001, 1, num_of_trainable_ops=0)


def test_errors_name_the_rule_and_the_value() -> None:
    fresh = train.session(MLP_SM / "model.circle")
    x, t = batch()
    with pytest.raises(RuntimeError, match=r"Call compile\(\)"):
        fresh.train_step(x, t)
    with pytest.raises(RuntimeError, match=r"Call compile\(\)"):
        fresh.train_export_circle("o.circle")
    with pytest.raises(OptionError, match="`loss=`: must be in the training info"):
        fresh.session.train_prepare()
    with pytest.raises(AttributeError, match="no_such_call"):
        fresh.no_such_call()
    with pytest.raises(ValueError, match="one of sgd, adam, but got 'lion'"):
        compiled(optimizer="lion")
    with pytest.raises(TypeError, match="must derive from LossFunction, but got int"):
        compiled(loss=3)
    with pytest.raises(ValueError, match="mean or sum, but got 'none'"):
        train.losses.MeanSquaredError(reduction="none")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="one for each of 1 outputs, but got 2"):
        compiled(metrics=["categorical_accuracy"] * 2)
    rule = train.optimizer.SGD()
    rule.nums_trainable_ops = 4
    with pytest.raises(OptionError, match="must be at most 3"):
        compiled(optimizer=rule)
    with pytest.raises(OptionError, match="`batch_size=`: must be 1 or more, but got 0"):
        compiled(batch_size=0)
    s = compiled()
    with pytest.raises(ValueError, match="at most 8 samples, but got 9"):
        s.train_step(*batch(9))
    with pytest.raises(DataError, match=r"input 0: must be samples of .*784"):
        s.train_step([x[0][:, :700]], t)
    with pytest.raises(DataError, match="input 1: must be 0 … 0, of 1"):
        s.train_set_input(1, x[0])
    with pytest.raises(DataError, match=r"one number of samples from 1 to 8, but got 7, 8"):
        s.train_step([x[0][:7]], t)
    with pytest.raises(ModelError, match="must be a checkpoint to read"):
        s.train_import_checkpoint("no such file")


def test_the_last_batch_is_filled_with_its_own_first_samples() -> None:
    data = train.DataLoader([np.arange(5)], [np.arange(5) * 10], 3)
    batches = [(x[0].tolist(), t[0].tolist()) for x, t in data]
    assert batches == [([0, 1, 2], [0, 10, 20]), ([3, 4, 3], [30, 40, 30])]
    first, rest = data.split(0.4)
    assert (first.inputs[0].tolist(), rest.expecteds[0].tolist()) == ([0, 1, 2], [30, 40])


def test_an_array_is_a_list_along_its_first_axis(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    data = train.DataLoader(values, np.zeros(6), 6)
    assert [a.tolist() for a in data.inputs] == values.tolist()
    np.save(tmp_path / "a.npy", values)
    values.tofile(tmp_path / "a.raw")
    for name, shape in (("a.npy", None), ("a.raw", (2, 6))):
        path = str(tmp_path / name)
        data = train.DataLoader(path, path, 2, input_shape=shape, expected_shape=shape)
        np.testing.assert_array_equal(data.inputs[0], values)


@pytest.mark.parametrize(
    ("source", "shape", "words"),
    [
        ("a.raw", None, "must be given"),
        ("a.raw", (3, 6), "must have 72 bytes for"),
        ("a.txt", (2, 6), "must be a .npy, .bin or .raw file"),
        ([1, 2], None, "must be arrays"),
        ([], None, "must be arrays"),
        ([np.zeros(3), np.zeros(4)], None, "the same length, but got"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    source: Any, shape: tuple[int, ...] | None, words: str, tmp_path: Path
) -> None:
    np.zeros((2, 6), np.float32).tofile(tmp_path / "a.raw")
    if isinstance(source, str):
        source = str(tmp_path / source)
    with pytest.raises(ValueError, match=words):
        train.DataLoader(source, [np.zeros(3)], 2, input_shape=shape)


def test_fractions_and_batch_sizes_out_of_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 0 … 1"):
        train.DataLoader([np.zeros(3)], [np.zeros(3)], 2).split(1.5)
    with pytest.raises(ValueError, match="batch_size: must be 1 or more, but got -1"):
        train.DataLoader([np.zeros(3)], [np.zeros(3)], -1)


def test_weights_stored_as_float16_train_and_operators_count_as_in_the_file(tmp_path: Path) -> None:
    builder = ModelBuilder("tflite", seed=2)
    x = builder.add_input((1, 6))
    half = builder.add_constant(builder.rng.normal(0, 0.5, (4, 6)).astype(np.float16))
    w = builder.add_operator("DEQUANTIZE", [half], (4, 6))
    builder.write(
        tmp_path / "half.tflite", builder.add_operator("FULLY_CONNECTED", [x, w, -1], (1, 4))
    )
    rule = train.optimizer.SGD(0.1)
    rule.nums_trainable_ops = 2  # DEQUANTIZE is one of them
    s = compiled(tmp_path / "half.tflite", optimizer=rule)
    arrays = [np.ones((8, 6), np.float32)], [np.ones((8, 4), np.float32)]
    losses = [s.train_step(*arrays)["loss"][0] for _ in range(3)]
    assert losses[2] < losses[0]
    s.train_export_circle(tmp_path / "half.circle")
    data = read_model(tmp_path / "half.circle").graph.tensors[1].data
    assert data is not None
    assert data.dtype == np.float16


def test_names_and_numbers_of_onert_are_those_of_the_rows() -> None:
    for kinds, names, rows in (
        (loss, losses.NAMES, LOSSES),
        (optimizer, optimizers.NAMES, OPTIMIZERS),
    ):
        numbers = {str(int(kind)): kind.name.lower() for kind in kinds if kind}
        assert numbers == rows.onert_numbers
        assert {name: made.kind.name.lower() for name, made in names.items()} == {
            name: name for name in numbers.values()
        }
    assert list(metrics.NAMES) == list(METRICS.onert_numbers.values())
