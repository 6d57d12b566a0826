"""The offline phase: the names of onnxruntime.training.artifacts."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, cast

from odt.compat.ort import onnxblock
from odt.compat.ort.checkpoint_state import write_checkpoint
from odt.compat.ort.onnx_artifacts import OnnxArguments, OwnLoss
from odt.compat.ort.onnx_source import onnx_source
from odt.compat.ort.onnxblock import loss as losses
from odt.compat.ort.onnxblock import optim
from odt.compat.ort.recipe import Recipe, check_names
from odt.core.recipe.option_values import list_of_names
from odt.core.storage.reading import unwritable
from odt.errors import ModelError, OptionError
from odt.kernels.loss_text import is_plugin, stored_loss
from odt.kernels.rows.scheduledef import Schedule
from odt.loss import Loss
from odt.models.model import Model, load_model
from odt.optimizer import Optimizer


class LossType(Enum):
    """Loss for `generate_artifacts`; onnxblock.loss has them with arguments."""

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(Enum):
    """Optimizer for `generate_artifacts`; onnxblock.optim has them with arguments."""

    AdamW = 1
    SGD = 2


def generate_artifacts(
    model: Any,
    requires_grad: Sequence[str] | None = None,
    frozen_params: Sequence[str] | None = None,
    loss: LossType | onnxblock.Block | Loss | str | None = None,
    optimizer: OptimType | optim.AdamW | optim.SGD | Optimizer | None = None,
    artifact_directory: str | bytes | os.PathLike[str] | None = None,
    prefix: str = "",
    ort_format: bool = False,
    custom_op_library: Any = None,
    additional_output_names: Sequence[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: Sequence[str] | None = None,
    *,
    batch_size: int = 32,
) -> None:
    """Writes what the training phase needs, after checking that the model can be trained.

    For an ONNX model the files are those of ONNX Runtime: training_model.onnx, eval_model.onnx,
    checkpoint and, with an optimizer, optimizer_model.onnx. For a Circle or TFLite model they are
    the model itself, checkpoint in odt's format, and training_model.json, eval_model.json and, with
    an optimizer, optimizer_model.json, whose contents are equal. Each name begins with `prefix`.
    Existing files are replaced.

    Args:
        model: an ONNX model: an onnx.ModelProto, its bytes, or the path of a file; or a Circle or
            TFLite model: `odt.Model` or the path of its file.
        requires_grad: parameters that train; None for all that are not in `frozen_params`.
        frozen_params: parameters that do not train.
        loss: the loss, which is added to the model: a LossType, a block, or a loss of odt. None for
            an ONNX model whose first output is its loss.
        optimizer: the optimizer, whose learning rate begins at 0.001, or at its own if it is one of
            odt; None for none.
        artifact_directory: folder of the files, which is made if needed; None for the current one.
        prefix: text before each file name. Up to its last slash it is a folder inside
            `artifact_directory`.
        ort_format: must be False.
        custom_op_library: must be None.
        additional_output_names: outputs of the model that a step returns besides the loss; of an
            ONNX model also tensors inside it.
        nominal_checkpoint: whether to write nominal_checkpoint too, with names only.
        loss_input_names: outputs that the loss reads; None for all.
        batch_size: samples that memory is planned for, for Circle and TFLite models. Steps with
            more samples are computed in parts.

    Raises:
        ModelError: if the model cannot be read, or a file cannot be written.
        UnsupportedError: if the model has operators that odt cannot train.
        OptionError: if an argument is invalid.
    """
    if ort_format:
        raise OptionError("ort_format", "must be False", ort_format, "odt writes no .ort files.")
    if custom_op_library is not None:
        raise OptionError(
            "custom_op_library",
            "must be None",
            custom_op_library,
            "`odt.check` lists the operators of a model that odt lacks.",
        )
    if not isinstance(prefix, str):
        raise OptionError("prefix", "must be text", repr(prefix))
    subfolder, prefix = os.path.split(prefix)
    folder = Path(os.fsdecode(artifact_directory or ""), subfolder)
    source = onnx_source(model)
    if source is not None:
        arguments = OnnxArguments(
            source,
            list_of_names("requires_grad", requires_grad),
            list_of_names("frozen_params", frozen_params) or (),
            _block_of(loss),
            None if optimizer is None else _optimizer_of(optimizer),
            list_of_names("additional_output_names", additional_output_names) or (),
            list_of_names("loss_input_names", loss_input_names),
        )
        model_with_loss = arguments.evaluation_model()
        _make(folder)
        arguments.write(model_with_loss, folder, prefix, nominal=nominal_checkpoint)
        return
    loaded = _model_of(model)
    outputs = [t.name for t in loaded.outputs]
    recipe = Recipe(
        f"{prefix}model.{loaded.format}",
        *_loss_of(loss),
        _output_of(loss_input_names, outputs),
        check_names("requires_grad", requires_grad, loaded.parameters),
        check_names("frozen_params", frozen_params, loaded.parameters),
        check_names("additional_output_names", additional_output_names, outputs) or (),
        batch_size,
        _optimizer_of(optimizer),
    )
    _check_parameters(recipe, [*loaded.parameters])
    with recipe.trainer(loaded) as trainer:
        if trainer.session.recipe.lowered.adapted:
            rule = "must have no low-rank adapters"
            raise OptionError("model", rule, loaded.path, "Train it with `odt.Trainer`.")
        trainer.session.build()
        _make(folder)
        loaded.save(folder / recipe.model)
        for name in ("training", "eval", *(["optimizer"] if optimizer is not None else [])):
            recipe.write(folder / f"{prefix}{name}_model.json")
        write_checkpoint(trainer.state, folder / f"{prefix}checkpoint")
        if nominal_checkpoint:
            write_checkpoint(trainer.state, folder / f"{prefix}nominal_checkpoint", names_only=True)


def _model_of(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if not isinstance(model, str | os.PathLike):
        rule = "must be an ONNX, Circle or TFLite model, or the path of its file"
        raise OptionError("model", rule, type(model).__name__)
    return load_model(model)


def _block_of(loss: Any) -> onnxblock.Block:
    """Returns a loss as block."""
    if loss is None:
        return onnxblock.blocks.PassThrough()
    if isinstance(loss, LossType):
        return cast("onnxblock.Block", getattr(losses, loss.name)())
    if isinstance(loss, onnxblock.Block):
        return loss
    if isinstance(loss, Loss | str):
        return OwnLoss(_text_of(loss))
    raise OptionError("loss", "must be a LossType, a block or a loss of odt", repr(loss))


def _loss_of(loss: Any) -> tuple[str, dict[str, Any]]:
    """Returns the fields of a recipe: name and options."""
    if isinstance(loss, LossType):
        loss = getattr(losses, loss.name)()
    if isinstance(loss, losses.LOSSES):
        if isinstance(loss, losses.BCEWithLogitsLoss):
            loss.check_unweighted()
        return type(loss).__name__, asdict(loss)
    if isinstance(loss, Loss | str):
        return _text_of(loss), {}
    rule = "must be a LossType, a loss of onnxblock.loss or a loss of odt"
    if isinstance(loss, onnxblock.Block):
        remedy = "Blocks that combine losses need an ONNX model."
        raise OptionError("loss", rule, type(loss).__name__, remedy)
    raise OptionError("loss", rule, repr(loss))


def _text_of(loss: Loss | str) -> str:
    """Returns a loss of odt as files name it; raises OptionError for a custom one."""
    text = str(loss)
    if is_plugin(text):
        raise OptionError("loss", "must be one of odt's in artifacts", f"the custom loss {text}")
    return stored_loss(text)


def _optimizer_of(optimizer: Any) -> dict[str, Any]:
    """Returns the field of a recipe: arguments of a trainer."""
    if optimizer is None:
        return {}
    if isinstance(optimizer, OptimType):
        optimizer = getattr(optim, optimizer.name)()
    if isinstance(optimizer, optim.AdamW | optim.SGD):
        return optimizer.arguments()
    if not isinstance(optimizer, Optimizer):
        rule = "must be an OptimType, an optimizer of onnxblock.optim or an optimizer of odt"
        raise OptionError("optimizer", rule, optimizer)
    if isinstance(optimizer.learning_rate, Schedule):
        rule = "must have a number as learning rate"
        raise OptionError("optimizer", rule, optimizer, "Use LinearLRScheduler.")
    return optim.arguments_of(optimizer)


def _output_of(names: Any, outputs: list[str]) -> str:
    """Returns the name of the output that the loss reads."""
    inputs = check_names("loss_input_names", names, outputs) or tuple(outputs)
    if len(inputs) != 1:
        raise OptionError(
            "loss_input_names", "must be one output of the model", ", ".join(inputs) or "none"
        )
    return inputs[0]


def _check_parameters(recipe: Recipe, parameters: list[str]) -> None:
    """Raises OptionError if a parameter is both trained and frozen, or an empty list trains."""
    trained, frozen = recipe.requires_grad, recipe.frozen_params or ()
    both = [name for name in trained or () if name in frozen]
    if both:
        rule = "must have no parameter in common"
        raise OptionError("requires_grad, frozen_params", rule, ", ".join(both))
    if trained == ():
        remedy = f"The model has {', '.join(parameters)}; None trains all."
        raise OptionError("requires_grad", "must name a parameter", "none", remedy)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(unwritable(folder, e, "folder")) from e
