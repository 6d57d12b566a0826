"""The training and evaluation model of a folder with artifacts of a Circle or TFLite model."""

import os
from collections.abc import Sequence
from typing import Any

from odt.compat.ort.recipe import read_recipe
from odt.compat.ort.steps import Batch, Steps
from odt.errors import DataError, ModelError, OptionError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.opdef import TensorSpec
from odt.training.checkpoint_state import CheckpointState
from odt.training.weights import Array

Path = str | os.PathLike[str]


class RecipeModel:
    """A model with its recipe, and the trainer that runs it.

    Attributes:
        uri: path of the recipe.
        recipe: how the model trains.
        trainer: the trainer.
        state: the state of the trainer.
        steps: its steps.
        input_names, output_names: names of the arguments and results of a call.
        additional: numbers of the additional outputs among those of the trainer.
    """

    def __init__(
        self, train_uri: Path, eval_uri: Path | None, state: CheckpointState, **options: Any
    ) -> None:
        """Reads the recipe and makes the trainer.

        Args:
            train_uri: path of training_model.json.
            eval_uri: path of eval_model.json; None for none.
            state: state to continue from.
            **options: further arguments of odt.Trainer.

        Raises:
            ModelError: if a file cannot be read, or the files do not belong together.
        """
        self.uri = os.fspath(train_uri)
        self.recipe = read_recipe(train_uri, "a training model")
        if eval_uri is not None:
            self._check(eval_uri, "an evaluation model")
        path = os.path.join(os.path.dirname(self.uri), self.recipe.model)
        self.trainer = self.recipe.trainer(path, checkpoint=state, **options)
        names = [t.name for t in self.trainer.model.outputs]
        self.additional = [names.index(n) for n in self.recipe.additional_output_names]
        self.trainer.session.outputs = bool(self.additional)
        self.state = self.trainer.state
        self.steps = Steps()
        target = "labels" if self._target_kind == LABELS else "target"
        self.input_names = [*(t.name for t in self.trainer.model.inputs), target]
        self.output_names = ["loss", *self.recipe.additional_output_names]

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update; can be set."""
        return self.trainer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.trainer.learning_rate = value

    def batch(self, arrays: Sequence[Array], *, train: bool) -> Batch:
        """Returns the arguments of a call as samples.

        Args:
            arrays: the arguments.
            train: whether they are for a step of training.

        Raises:
            DataError: if they do not fit the model.
        """
        *inputs, targets = arrays
        if self._target_kind == LABELS:
            check_labels("labels", targets, self.trainer.session.samples.target_specs[0])
        block = self.recipe.block
        if block is None:
            return Batch(inputs, [targets], arguments=range(len(arrays)))
        targets, weights, factor = block.weigh(targets)
        return Batch(inputs, [targets], weights, factor)

    def use_optimizer(self, path: Path) -> None:
        """Checks the file of an optimizer.

        Raises:
            ModelError: if it cannot be read or belongs to another model.
            OptionError: if the artifacts have no optimizer.
        """
        self._check(path, "an optimizer model")
        if not self.recipe.optimizer:
            rule = "must be given to generate_artifacts"
            raise OptionError("optimizer", rule, None, f"{self.uri} has none.")

    def export(self, path: Path, names: Sequence[str]) -> None:
        """Writes the model with the current parameters.

        Raises:
            OptionError: if the names are not all outputs of the model.
            ModelError: if the file cannot be written, or its name is that of an ONNX file.
        """
        outputs = [t.name for t in self.trainer.model.outputs]
        if sorted(names) != sorted(outputs):
            rule = f"must be all outputs of the model, {outputs}"
            raise OptionError("graph_output_names", rule, list(names))
        if os.fspath(path).lower().endswith((".onnx", ".ort")):
            raise ModelError(
                f"{os.fspath(path)}: must be the name of a .tflite or .circle file, but got that "
                "of an ONNX file. The model is not in ONNX."
            )
        self.trainer.export(path)

    def gradient(self, name: str) -> Array | None:
        """Returns a copy of the summed gradient of a parameter; None if there is none."""
        values = self.steps.gradient(self.trainer, name)
        return None if values is None else values.copy()

    def close(self) -> None:
        """Ends the worker threads."""
        self.trainer.close()

    @property
    def _target_kind(self) -> str:
        loss, _ = self.trainer.session.samples.losses[0]
        return LOSSES[loss].targets

    def _check(self, path: Path, what: str) -> None:
        """Raises ModelError if another file does not have the recipe of this model."""
        if read_recipe(path, what) != self.recipe:
            raise ModelError(
                f"{os.fspath(path)}: must be equal to {self.uri}, but differs. Give files that one "
                "call of generate_artifacts wrote."
            )


def check_labels(name: str, labels: Array, spec: TensorSpec) -> None:
    """Checks that labels are class numbers.

    Args:
        name: name in messages.
        labels: the labels (N, …).
        spec: spec of a sample's labels.

    Raises:
        DataError: if they are others.
    """
    are_rows = labels.ndim > 1 + len(spec.shape) and labels.shape[-1] != 1
    if are_rows or labels.dtype.kind not in "iu":
        raise DataError(
            f"{name}: must be class numbers (N{''.join(f', {n}' for n in spec.shape)}), int32 or "
            f"int64, but got {labels.shape} {labels.dtype}. `argmax(-1)` converts one-hot rows."
        )
