"""Recipes: the JSON files of generate_artifacts, which say how the model beside them trains."""

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from glob import escape
from typing import Any

from odt.compat.ort.onnxblock.loss import LOSSES, Loss
from odt.core.options.training_options import TRAINING_OPTIONS
from odt.core.recipe.option_values import list_of_names
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import read_input, reading
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.loss_text import stored_loss
from odt.models.model import Model, load_model
from odt.training.trainable import Trainable
from odt.training.trainer import Trainer

Path = str | os.PathLike[str]
VERSION = 1
# Arguments of odt.Trainer that select an optimizer → type.
OPTIMIZER = {
    name: type(TRAINING_OPTIONS[name].default)
    for name in ("optimizer", "learning_rate", "clip_norm")
} | {"hyper_parameters": dict}
BLOCKS = {loss.__name__: loss for loss in LOSSES}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Contents of training_model.json, eval_model.json and optimizer_model.json, which are equal.

    Attributes:
        model: file of the model, in the folder of the recipe.
        loss: name of a class of onnxblock.loss, or loss of odt as text.
        loss_options: arguments of the class.
        output: name of the output that the loss reads.
        requires_grad, frozen_params: parameters that train, and that do not; None for all others.
        additional_output_names: outputs that a step returns besides the loss.
        batch_size: samples that are planned for.
        optimizer: arguments of odt.Trainer that select the optimizer; empty for none.
    """

    model: str
    loss: str
    loss_options: Mapping[str, Any]
    output: str
    requires_grad: tuple[str, ...] | None
    frozen_params: tuple[str, ...] | None
    additional_output_names: tuple[str, ...]
    batch_size: int
    optimizer: Mapping[str, Any]

    def trainer(self, model: Model | Path, **options: Any) -> Trainer:
        """Returns a trainer of the model.

        Args:
            model: the model or the path of its file.
            **options: further arguments of odt.Trainer.

        Raises:
            OptionError: if the recipe does not fit the model.
        """
        loaded = model if isinstance(model, Model) else load_model(model)
        losses = {t.name: "none" for t in loaded.outputs} | {self.output: self.odt_loss}
        check_names("additional_output_names", self.additional_output_names, losses)
        several = {"output_losses": losses} if len(losses) > 1 else {"loss": self.odt_loss}
        trainable = Trainable(
            patterns=tuple(map(escape, self.requires_grad or ())),
            freeze=tuple(map(escape, self.frozen_params or ())),
        )
        trainer = Trainer(
            loaded,
            trainable=trainable,
            batch_size=self.batch_size,
            **several,
            **(self.optimizer or {"optimizer": "sgd"}),
            **options,
        )
        weight = self.loss_options.get("weight")
        (_, output), *_ = trainer.session.samples.losses
        if weight is not None and (len(weight),) != output.shape[-1:]:
            rule = f"must be {output.shape[-1]} class weights for {self.output}"
            raise OptionError("weight", rule, len(weight))
        return trainer

    @property
    def block(self) -> Loss | None:
        """The loss with its reduction and class weights; None for a loss of odt."""
        return BLOCKS[self.loss](**self.loss_options) if self.loss in BLOCKS else None

    @property
    def odt_loss(self) -> str:
        """The loss as text of odt, never a custom one: the recipe is a file."""
        return BLOCKS[self.loss].name if self.loss in BLOCKS else stored_loss(self.loss)

    def write(self, path: Path) -> None:
        """Writes the recipe.

        Args:
            path: path of the JSON file.
        """
        text = json.dumps({"odt.compat.ort": VERSION} | asdict(self), indent=1)
        write_atomically(path, [f"{text}\n".encode()])


def read_recipe(path: Path, what: str) -> Recipe:
    """Reads a recipe.

    Args:
        path: path of the JSON file. The name that ONNX Runtime gives the file, with the extension
            .onnx, stands for the same name with .json, so that scripts may keep it.
        what: description of the file, for messages.

    Raises:
        ModelError: if the file cannot be read or is no recipe.
    """
    stem, extension = os.path.splitext(path)
    if extension == ".onnx" and os.path.exists(f"{stem}.json") and not os.path.exists(path):
        path = f"{stem}.json"
    if os.fspath(path).lower().endswith((".onnx", ".ort")):
        raise ModelError(
            f"{os.fspath(path)}: must be {what}, a .json file, but got an ONNX file, which does "
            "not belong to a checkpoint in odt's format. Give files of one folder."
        )
    data = read_input(path, what, ModelError)
    with reading(os.fspath(path), f"must be {what} that generate_artifacts wrote", ModelError):
        stored = json.loads(data)
        if stored.pop("odt.compat.ort") != VERSION or stored.keys() != FITS.keys():
            raise ValueError("other keys or another version")
        wrong = [name for name, fits in FITS.items() if not fits(stored[name])]
        if wrong:
            raise ValueError(f"{wrong[0]} {stored[wrong[0]]!r}")
        values: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()
        }
        recipe = Recipe(**values)
        _ = recipe.block
    return recipe


def check_names(field: str, names: Any, names_of_model: Collection[str]) -> tuple[str, ...] | None:
    """Checks a list of names of the model; returns None for None.

    Args:
        field: argument that holds them.
        names: the names.
        names_of_model: all names that may be in the list.

    Raises:
        OptionError: if it is no list, or a name is unknown.
    """
    listed = list_of_names(field, names)
    for name in listed or ():
        if name not in names_of_model:
            remedy = f"It has {', '.join(names_of_model)}."
            raise OptionError(field, "must be names of the model", name, remedy)
    return listed


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_optimizer(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == OPTIMIZER.keys()
        and all(isinstance(value[name], kind) for name, kind in OPTIMIZER.items())
    )


# Field of a recipe → check of its value in a file.
FITS: Mapping[str, Callable[[Any], bool]] = {
    "model": lambda v: _is_text(v) and v not in ("", "..") and os.path.basename(v) == v,
    "loss": _is_text,
    "loss_options": lambda v: isinstance(v, dict),
    "output": _is_text,
    "requires_grad": lambda v: v is None or _is_list(v),
    "frozen_params": lambda v: v is None or _is_list(v),
    "additional_output_names": _is_list,
    "batch_size": lambda v: isinstance(v, int),
    "optimizer": lambda v: v == {} or _is_optimizer(v),
}
