"""Models that end in operators without gradient are trained, and exported with these operators."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.final_operators import (
    ANCHORS,
    CLASSES,
    SIDE,
    arg_max,
    detection,
    quantized_detection,
    segmentation,
)
from support.judges import litert

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

MSE = "mean_squared_error"
COUNT = 32
PIXELS = (COUNT, SIDE, SIDE)
rng = np.random.default_rng(3)
IMAGES = rng.normal(size=(*PIXELS, 2)).astype(np.float32)
LABELS = (IMAGES[..., 0] > 0).astype(np.int32) + 2 * (IMAGES[..., 1] > 0).astype(np.int32)
BOXES = rng.normal(size=(COUNT, ANCHORS, 4)).astype(np.float32)
SCORES = rng.random((COUNT, ANCHORS, CLASSES)).astype(np.float32)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def tensors(path: Path, x: Array, numbers: tuple[int, ...]) -> list[Array]:
    """LiteRT's values of some tensors for one sample, by its own kernels."""
    interpreter = Interpreter(
        str(path),
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    found = []
    for i in numbers:
        values = interpreter.get_tensor(i)
        (detail,) = (d for d in interpreter.get_tensor_details() if d["index"] == i)
        scale, zero = detail["quantization"]
        found.append((values.astype(np.float32) - zero) * scale if scale else values)
    return found


def assert_rest_stays(old: Path, new: Path) -> None:
    """Only constants of floats or with a scale, and scales, differ in the exported file."""
    a, b = read_model(old), read_model(new)
    assert len(a.data) == len(b.data)
    differs = np.frombuffer(a.data, np.uint8) != np.frombuffer(b.data, np.uint8)
    assert differs.any()
    for tensor in a.graph.tensors:
        if tensor.data is not None and (tensor.quantized or tensor.spec.dtype.kind == "f"):
            offset, size = a.spans[tensor.buffer]
            differs[offset : offset + size] = False
    scales = sum(q.scale.size for q in a.quantization.values())
    assert np.count_nonzero(differs) <= 4 * scales


@pytest.mark.parametrize("softmax", [False, True])
def test_a_segmentation_model_learns_class_numbers(softmax: bool, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    segmentation(path, softmax=softmax)
    with odt.Trainer(path, batch_size=8, learning_rate=0.02, metrics="accuracy") as trainer:
        losses = [trainer.train_on_batch(IMAGES[:8], LABELS[:8])["loss"] for _ in range(20)]
        assert losses[-1] < 0.6 * losses[0]
        trainer.fit(IMAGES, LABELS, epochs=3)
        logs = trainer.evaluate(IMAGES, LABELS)
        classes = trainer.predict(IMAGES)
        trainer.export(out)
    assert classes.dtype == np.int64
    assert logs["accuracy"] == pytest.approx(np.mean(classes == LABELS))
    np.testing.assert_array_equal(litert(out, [IMAGES])[0], classes)
    assert_rest_stays(path, out)


def test_targets_that_do_not_fit_name_the_operator_that_is_left_out(tmp_path: Path) -> None:
    """Raw class numbers in the type of the file's output, int64, are twice as long."""
    segmentation(tmp_path / "m.tflite")
    LABELS.astype(np.int64).tofile(tmp_path / "y.bin")
    with odt.Trainer(tmp_path / "m.tflite") as trainer:
        words = r"of \(6, 6\) int32. .* training leaves out .* \(ARG_MAX\), which has no gradient"
        with pytest.raises(odt.DataError, match=words):
            trainer.fit(IMAGES, tmp_path / "y.bin")


def test_class_numbers_train_like_a_model_cut_before_arg_max(tmp_path: Path) -> None:
    segmentation(tmp_path / "m.tflite")
    odt.cut(tmp_path / "m.tflite", before=["logits"]).save(tmp_path / "part.tflite")
    for name in ("m", "part"):
        loss = None if name == "m" else "sparse_categorical_crossentropy"
        with odt.Trainer(tmp_path / f"{name}.tflite", batch_size=8, loss=loss) as trainer:
            trainer.fit(IMAGES, LABELS, epochs=2, seed=1)
            trainer.export(tmp_path / f"{name}.out.tflite")
    odt.join(tmp_path / "m.tflite", [tmp_path / "part.out.tflite"], tmp_path / "joined.tflite")
    joined = (tmp_path / "joined.tflite").read_bytes()
    assert joined == (tmp_path / "m.out.tflite").read_bytes()


@pytest.mark.parametrize("make", [detection, quantized_detection])
def test_a_detector_trains_before_its_post_processing(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    make(path)
    losses = {"0": MSE, "1": "binary_crossentropy"}
    with odt.Trainer(path, batch_size=8, learning_rate=0.02, output_losses=losses) as trainer:
        x = rng.normal(size=(COUNT, *trainer.session.samples.input_specs[0].shape)).astype(
            np.float32
        )
        if trainer.session.samples.quantizations[0] is not None:
            x = rng.integers(0, 255, x.shape, endpoint=True).astype(np.uint8)
        falls = [trainer.train_on_batch(x[:8], [BOXES[:8], SCORES[:8]]) for _ in range(20)]
        assert falls[-1]["loss"] < falls[0]["loss"]
        predicted = trainer.predict(x)
        trainer.export(out)
        numbers = trainer.session.recipe.graph.outputs
    assert_rest_stays(path, out)
    for values, expected in zip(predicted, tensors(out, x[:1], numbers), strict=True):
        span = np.ptp(expected)
        np.testing.assert_allclose(values[:1], expected, atol=1e-5 * span)


def test_a_detector_needs_losses(tmp_path: Path) -> None:
    detection(tmp_path / "m.tflite")
    with pytest.raises(odt.OptionError, match=r'must be given for tensor .* \("boxes"\)'):
        odt.Trainer(tmp_path / "m.tflite")


def test_the_float_export_of_a_quantized_detector(tmp_path: Path) -> None:
    quantized_detection(tmp_path / "m.tflite")
    with odt.Trainer(tmp_path / "m.tflite", batch_size=8, loss=MSE) as trainer:
        x = rng.normal(size=(8, *trainer.session.samples.input_specs[0].shape)).astype(np.float32)
        trainer.train_on_batch(x, [BOXES[:8], SCORES[:8]])
        trainer.export(tmp_path / "float.tflite", float_weights=True)
    found = litert(tmp_path / "float.tflite", [x])
    assert found[0].shape[1:] == (3, 4)


def test_a_run_resumes_with_the_same_outputs(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    segmentation(path)
    with odt.Trainer(path, batch_size=8) as trainer:
        trainer.fit(IMAGES, LABELS, epochs=1, seed=1)
        trainer.save_checkpoint(tmp_path / "one.odt")
    with odt.Trainer(path, batch_size=8) as trainer:
        trainer.fit(IMAGES, LABELS, epochs=2, seed=1)
        trainer.export(tmp_path / "whole.circle", training_info=True)
    with odt.Trainer(path, batch_size=8, checkpoint=tmp_path / "one.odt") as trainer:
        trainer.fit(IMAGES, LABELS, epochs=2, seed=1)
        trainer.export(tmp_path / "resumed.circle", training_info=True)
    whole = (tmp_path / "whole.circle").read_bytes()
    assert whole == (tmp_path / "resumed.circle").read_bytes()
    stored = odt.read_training_info(tmp_path / "whole.circle")
    assert stored is not None
    assert stored.loss == "sparse_categorical_crossentropy"
    with odt.Trainer(tmp_path / "whole.circle") as trainer:
        assert trainer.session.samples.losses[0][0] == "sparse_categorical_crossentropy"


def test_commands_say_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    detection(path)
    np.save(tmp_path / "x.npy", rng.normal(size=(COUNT, 3, SIDE, 2)).astype(np.float32))
    arrays: Any = {"0": BOXES, "1": SCORES}
    np.savez(tmp_path / "y.npz", **arrays)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npz")
    loss = ("--loss", "mean-squared-error")
    end = (
        "leaves out node 7 (CUSTOM:TFLite_Detection_PostProcess), which odt does not compute. Its "
        'outputs are tensor 8 ("boxes") (1, 18, 4), tensor 13 ("probabilities") (1, 18, 4).'
    )
    trained = run(
        "train", path, *data, *loss, "--epochs", 1, "--export-tflite", tmp_path / "o.tflite"
    )
    for result, what in (
        (trained, "training"),
        (run("inspect", path), "training"),
        (run("plan", path, *loss), "training"),
        (run("check", path, *loss), "training"),
        (run("eval", path, *data, *loss), "evaluation"),
        (run("predict", path, *data[:2], "--output", tmp_path / "p.npz"), "prediction"),
    ):
        assert result.exit_code == 0, result.output
        assert f"{what} {end}" in result.output, what
    with np.load(tmp_path / "p.npz") as found:
        assert {name: found[name].shape for name in found} == {
            "boxes": BOXES.shape,
            "probabilities": SCORES.shape,
        }


def test_a_prediction_of_classes_is_the_files_own(tmp_path: Path) -> None:
    segmentation(tmp_path / "m.tflite")
    np.save(tmp_path / "x.npy", IMAGES)
    result = run(
        "predict", tmp_path / "m.tflite", "--load-input", tmp_path / "x.npy", "--output",
        tmp_path / "p.npy",
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "")
    expected = litert(tmp_path / "m.tflite", [IMAGES])[0]
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), expected)


def test_the_last_operators_count_without_those_left_out(tmp_path: Path) -> None:
    segmentation(tmp_path / "m.tflite")
    with odt.Trainer(tmp_path / "m.tflite", trainable=odt.last(1)) as trainer:
        assert trainer.session.recipe.info.trainable_ops == (2,)


def test_operators_behind_one_that_odt_cannot_compute_do_not_count(tmp_path: Path) -> None:
    """MINIMUM has a gradient, but training leaves it out with the draw of samples before it."""
    path = tmp_path / "m.tflite"
    model = ModelBuilder("tflite", seed=2)
    y = model.add_dense(model.add_dense(model.add_input((1, 6)), 5), CLASSES)
    y = model.add_operator("CUSTOM:FlexMultinomial", (y,), (1, 1))
    most = model.add_constant(np.array([2], np.float32))
    model.write(path, model.add_operator("MINIMUM", (y, most), (1, 1)))
    with odt.Trainer(path, loss=MSE, trainable=odt.last(1)) as trainer:
        assert trainer.session.recipe.info.trainable_ops == (1,)
    listed = [line.split() for line in run("inspect", path).output.splitlines()]
    layers = [words for words in listed if words[1:2] == ["FULLY_CONNECTED"]]
    assert [words[-2] for words in layers] == ["2", "1"]


def test_adapters_predict_the_outputs_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    model = ModelBuilder("tflite", seed=2)
    model.write(path, arg_max(model, model.add_dense(model.add_input((1, 6)), CLASSES), 1))
    x = rng.normal(size=(COUNT, 6)).astype(np.float32)
    labels = x[:, :CLASSES].argmax(axis=1).astype(np.int32)
    with odt.Trainer(odt.lora(path, rank=2), batch_size=8, learning_rate=0.05) as trainer:
        before = trainer.predict(x)
        trainer.fit(x, labels, epochs=3)
        classes = trainer.predict(x)
        trainer.export_adapters(tmp_path / "a.npz")
    assert (classes != before).any()
    np.save(tmp_path / "x.npy", x)
    words = ("--load-input", tmp_path / "x.npy", "--adapters", tmp_path / "a.npz")
    result = run("predict", path, *words, "--output", tmp_path / "p.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), classes)
