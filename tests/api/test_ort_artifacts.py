"""odt.compat.ort: generate_artifacts and its files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ort_artifacts import (
    FIRST,
    HEAD,
    LABELS,
    VALUES,
    X,
    generate,
    network,
    opened,
)

import odt
from odt.compat import ort
from odt.compat.ort import artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, Module, Optimizer


def test_the_files_have_the_prefix_and_the_recipes_are_equal(tmp_path: Path) -> None:
    folder = generate(tmp_path, prefix="a_", nominal_checkpoint=True)
    recipes = ["a_eval_model.json", "a_optimizer_model.json", "a_training_model.json"]
    files = [*recipes, "a_checkpoint", "a_model.tflite", "a_nominal_checkpoint"]
    assert sorted(p.name for p in folder.iterdir()) == sorted(files)
    assert len({(folder / name).read_bytes() for name in recipes}) == 1
    assert (folder / "a_model.tflite").read_bytes() == (tmp_path / "net.tflite").read_bytes()
    assert (folder / "a_nominal_checkpoint").stat().st_size < (
        folder / "a_checkpoint"
    ).stat().st_size


def test_without_a_folder_the_files_are_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network(Path("net.tflite"))
    artifacts.generate_artifacts("net.tflite", loss=artifacts.LossType.MSELoss)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint", "eval_model.json", "model.tflite", "net.tflite", "training_model.json",
    ]  # fmt: skip
    with Module("training_model.json", CheckpointState.load_checkpoint("checkpoint")) as module:
        assert module(X, VALUES) > 0
        with pytest.raises(odt.OptionError, match=r"^`optimizer=`: must be given to generate_art"):
            Optimizer("training_model.json", module)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no loss": (
        {"loss": None},
        r"^`loss=`: must be a LossType, .* but got None$",
    ),
    "a graph as loss": ({"loss": object()}, r"^`loss=`: must be a LossType"),
    "an unknown loss": ({"loss": "mea"}, r"^`loss=`: must be"),
    "another optimizer": ({"optimizer": "adam"}, r"^`optimizer=`: must be an OptimType.*got adam"),
    "a schedule": (
        {"optimizer": odt.SGD(odt.ConstantRate(0.1))},
        r"must have a number as learning rate.*Use LinearLRScheduler",
    ),
    "text as learning rate": (
        {"optimizer": odt.Adam("0.1")},  # type: ignore[arg-type]
        r"^`learning_rate=`: must be a number above 0, but got 0.1$",
    ),
    "text as hyper-parameter": (
        {"optimizer": odt.Adam(0.1, beta_1="a")},  # type: ignore[arg-type]
        r"^`beta_1=`: must be a number, .* but got a$",
    ),
    "clipping without its class": (
        {"optimizer": onnxblock.optim.SGD(1.0)},  # type: ignore[arg-type]
        r"^`clip_grad=`: must be a ClipGradNorm, but got 1.0$",
    ),
    "a loss of ORT as text": ({"loss": "MSELoss"}, r"^`loss=`: must be"),
    "a custom loss": ({"loss": "numpy:square"}, r"^`loss=`: must be one of odt's in artifacts"),
    "no text as prefix": ({"prefix": 3}, r"^`prefix=`: must be text, but got 3$"),
    "ORT's format": ({"ort_format": True}, r"^`ort_format=`: must be False, but got True"),
    "custom operators": ({"custom_op_library": "ops.so"}, r"^`custom_op_library=`: must be None"),
    "an unknown parameter": (
        {"requires_grad": ["w7"]},
        r"^`requires_grad=`: must be names of the model, but got w7. It has w0, b0, w1, b1",
    ),
    "an unknown frozen parameter": ({"frozen_params": ["w7"]}, r"^`frozen_params=`: must be names"),
    "trained and frozen": (
        {"requires_grad": HEAD, "frozen_params": [*FIRST, "b1"]},
        r"^`requires_grad=`, `frozen_params=`: must have no parameter in common, but got b1$",
    ),
    "a name instead of a list": ({"requires_grad": "w1"}, r"must be a list of names, but got 'w1'"),
    "an unknown output": ({"additional_output_names": ["z"]}, r"but got z. It has y"),
    "two outputs in the loss": (
        {"loss_input_names": ["y", "h"]},
        r"^`loss_input_names=`: must be names of the model, but got h",
    ),
    "class weights": (
        {"loss": onnxblock.loss.CrossEntropyLoss([1.0, 2.0])},
        r"^`weight=`: must be 3 class weights for y, but got 2$",
    ),
    "batch size": ({"batch_size": 0}, r"^`batch_size=`: must be a whole number of at least 1"),
    "ORT's files": ({"model": "model.ort"}, r"^model.ort: must be an .onnx file, but got .* ORT"),
    "a model in memory": ({"model": b"x"}, r"^model: must be an ONNX model, but got other bytes"),
    "no model": ({"model": 7}, r"^`model=`: must be an ONNX, Circle or TFLite model, .*got int"),
    "a block": (
        {"loss": onnxblock.blocks.PassThrough()},
        r"^`loss=`: must be a LossType, .* PassThrough. Blocks that combine losses need an ONNX",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_are_refused_with_one_line(case: str, tmp_path: Path) -> None:
    options, message = REFUSED[case]
    with pytest.raises(odt.OdtError, match=message) as error:
        generate(tmp_path, **{"loss": artifacts.LossType.CrossEntropyLoss, **options})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "artifacts").exists(), "nothing is written before all is checked"


@pytest.mark.parametrize(
    "weight", [[-1.0, 1.0, 1.0], [np.nan, 1, 1], np.ones((3, 1)), ["a"], [], [[1], [1, 2]]]
)
def test_weights_of_classes_are_numbers(weight: Any) -> None:
    with pytest.raises(odt.OptionError, match=r"^`weight=`: must be \(K,\) numbers of at least 0"):
        onnxblock.loss.CrossEntropyLoss(weight)


@pytest.mark.parametrize("name", ["weight", "pos_weight"])
def test_weights_of_binary_cross_entropy_are_refused(name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {name: np.ones(3)}
    with pytest.raises(odt.OptionError, match=rf"^`{name}=`: must be left out of BCEWithLogits"):
        generate(tmp_path, onnxblock.loss.BCEWithLogitsLoss(**given))


def test_what_odt_lacks_is_refused_where_it_is_named() -> None:
    for module, name in (
        (onnxblock, "custom_op_library"),
        (onnxblock, "load_checkpoint_to_model"),
        (onnxblock.blocks, "LabelEncoder"),
        (onnxblock.blocks, "Linear"),
    ):
        with pytest.raises(odt.UnsupportedError, match=rf"{name}: "):
            getattr(module, name)
        with pytest.raises(AttributeError, match="has no attribute 'blox'"):
            _ = module.blox
    with pytest.raises(odt.OptionError, match="`bias_correction=`: must be True"):
        onnxblock.optim.AdamW(bias_correction=False)
    for betas in ((0.9,), (0.9, 0.99, 0.999), 0.9):
        with pytest.raises(odt.OptionError, match="`betas=`: must be two numbers, but got"):
            onnxblock.optim.AdamW(betas=betas)  # type: ignore[arg-type]  # no pair


def test_names_are_those_of_onnx_runtime() -> None:
    assert [t.name for t in artifacts.LossType] == [
        "MSELoss", "CrossEntropyLoss", "BCEWithLogitsLoss", "L1Loss",
    ]  # fmt: skip
    assert [t.name for t in artifacts.OptimType] == ["AdamW", "SGD"]
    assert ort.Module is Module is ort.api.Module


def test_losses_and_optimizers_of_odt_may_be_given(tmp_path: Path) -> None:
    adam = odt.Adam(np.float32(0.25), beta_1=np.float32(0.5))  # type: ignore[arg-type]
    folder = generate(tmp_path, odt.Huber(0.5), optimizer=adam, prefix="sub/") / "sub"
    _, module = opened(folder)
    optimizer = Optimizer(folder / "optimizer_model.json", module)
    assert optimizer.get_learning_rate() == 0.25
    assert module.input_names() == ["x", "target"]
    with odt.Trainer(tmp_path / "net.tflite", loss="huber:delta=0.5", batch_size=12) as trainer:
        assert module(X, VALUES) == pytest.approx(trainer.test_on_batch(X, VALUES)["loss"])


def test_files_of_different_calls_are_refused(tmp_path: Path) -> None:
    folder = generate(tmp_path)
    other = generate(tmp_path, artifacts.LossType.MSELoss, prefix="other_")
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    rule = "must be equal to .*training_model.json, but differs. Give files that one call"
    with pytest.raises(odt.ModelError, match=f"other_eval_model.json: {rule}"):
        Module(folder / "training_model.json", state, other / "other_eval_model.json")
    module = Module(folder / "training_model.json", state)
    with pytest.raises(odt.ModelError, match=f"other_optimizer_model.json: {rule}"):
        Optimizer(other / "other_optimizer_model.json", module)
    with pytest.raises(odt.OptionError, match="`state=`: must be used by one module"):
        Module(folder / "training_model.json", state)


def test_a_script_may_keep_the_names_of_its_files(tmp_path: Path) -> None:
    folder = generate(tmp_path)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    Optimizer(folder / "optimizer_model.onnx", module)
    assert module(X, LABELS) > 0
    (folder / "optimizer_model.onnx").write_bytes(b"a model of ONNX Runtime")
    with pytest.raises(odt.ModelError, match=r"optimizer_model.onnx: must be an optimizer model, "):
        Optimizer(folder / "optimizer_model.onnx", module)


def test_files_of_onnx_runtime_get_one_line(tmp_path: Path) -> None:
    state = CheckpointState.load_checkpoint(generate(tmp_path) / "checkpoint")
    with pytest.raises(odt.ModelError, match=r"^training_model.onnx: must be a training model, a "):
        Module("training_model.onnx", state)
    (tmp_path / "theirs").write_bytes(b"\x1c\0\0\0ODTC" + bytes(100))
    (tmp_path / "old").mkdir()
    for name, rule in (
        ("theirs", "The file is damaged or truncated"),
        ("net.tflite", "must be a checkpoint of ONNX Runtime or in odt's format, but got another"),
        ("old", "must be a file, but got a folder, as ONNX Runtime before 1.16 wrote them"),
    ):
        with pytest.raises(odt.ModelError, match=rule):
            CheckpointState.load_checkpoint(tmp_path / name)


def test_damaged_recipes_are_refused(tmp_path: Path) -> None:
    """Each field with each of some wrong values, and texts that are no recipe."""
    path = generate(tmp_path) / "training_model.json"
    whole = json.loads(path.read_text())
    texts = ["", "{", "[]", "7", "{}", path.read_text()[:-20]]
    values: list[Any] = [None, 7, "x", ["x"], {"x": 1}, [7], "../net.tflite", "..", True, 1.5]
    for name in whole:
        texts.append(json.dumps({n: v for n, v in whole.items() if n != name}))
        texts += [json.dumps({**whole, name: v}) for v in values]
        if isinstance(whole[name], dict):
            texts += [json.dumps({**whole, name: {**whole[name], "x": v}}) for v in values]
            texts += [json.dumps({**whole, name: whole[name] | {k: v}})
                      for k in whole[name] for v in values]  # fmt: skip
    refused = []
    for text in texts:
        path.write_text(text)
        state = CheckpointState.load_checkpoint(path.parent / "checkpoint")
        try:
            Module(path, state)(X, LABELS)
        except odt.OdtError as e:
            refused.append(str(e))
    assert len(refused) > 0.8 * len(texts)
    assert not any("\n" in line for line in refused)
