"""Module: training and evaluation steps."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.compat.ort.checkpoint_state import CheckpointState, Path
from odt.compat.ort.ort_value import OrtValue
from odt.compat.ort.recipe import read_recipe, refuse_onnx
from odt.core.storage.closing import Closing
from odt.errors import DataError, ModelError, OptionError, TrainingError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LABELS
from odt.training.weights import Array


class Module(Closing):
    """Runs training and evaluation steps of a model that `generate_artifacts` prepared.

    A training step adds to the gradients, which are kept until the first step after
    `lazy_reset_grad`. A module is a context manager; `close` ends its threads.

    Attributes:
        training: whether a call is a training step.
        trainer: the trainer of odt.
    """

    def __init__(
        self,
        train_model_uri: Path,
        state: CheckpointState,
        eval_model_uri: Path | None = None,
        device: str = "cpu",
        session_options: Any = None,
        *,
        memory_budget: int | str | None = None,
        workers: int | None = None,
    ) -> None:
        """Reads the model and takes over the state.

        Args:
            train_model_uri: path of training_model.json.
            state: the state, which is that of the module from now on.
            eval_model_uri: path of eval_model.json; evaluation works without it.
            device: must be cpu.
            session_options: must be None.
            memory_budget: peak memory that training may use, such as "64MB" or a number of bytes.
            workers: number of worker threads; chosen by odt if left out.

        Raises:
            ModelError: if a file cannot be read, or the files do not belong together.
            OptionError: if the device is another one, or a module uses the state already.
        """
        if device.partition(":")[0] != "cpu":
            raise OptionError("device", "must be cpu", device)
        if session_options is not None:
            rule = "must be None"
            raise OptionError("session_options", rule, session_options, "Give `workers=`.")
        if state.module is not None:
            rule = "must be used by one module"
            raise OptionError("state", rule, "a second one", "Load the checkpoint again.")
        self.recipe = read_recipe(train_model_uri, "a training model")
        self.uri = os.fspath(train_model_uri)
        if eval_model_uri is not None:
            self.check_recipe(eval_model_uri, "an evaluation model")
        self.training = True
        self.trainer = self.recipe.trainer(
            os.path.join(os.path.dirname(self.uri), self.recipe.model),
            checkpoint=state.odt_state,
            memory_budget=memory_budget,
            workers=workers,
        )
        self._state = state
        self._reset = False  # whether the next training step begins a new sum of gradients
        self._applied: dict[str, Array] = {}  # the sum at the last update, which clears it in odt
        self._goes_on = False  # whether the next training step adds to that sum
        state.attach(self, self.trainer.state)

    def check_recipe(self, path: Path, what: str) -> None:
        """Checks that a recipe is that of this module.

        Args:
            path: path of the recipe.
            what: description of the file, for messages.

        Raises:
            ModelError: if it cannot be read, or differs.
        """
        if read_recipe(path, what) != self.recipe:
            raise ModelError(
                f"{os.fspath(path)}: must be equal to {self.uri}, but differs. Give files that one "
                "call of generate_artifacts wrote."
            )

    def __call__(self, *user_inputs: Any) -> Any:
        """Runs a training step; after `eval`, an evaluation step.

        Args:
            *user_inputs: arrays or OrtValues in the order of `input_names`: the model's inputs
                (N, …), and the labels or targets (N, …).

        Returns:
            The loss, or a tuple of the loss and the additional outputs; OrtValues if all arguments
            are OrtValues.

        Raises:
            DataError: if shapes, dtypes or labels do not match the model.
            ModelError: if parameters of a nominal checkpoint have no values yet.
            TrainingError: if the loss is not finite; the gradients are then discarded.
        """
        names = self.input_names()
        if len(user_inputs) != len(names):
            got = f"{len(user_inputs)} values"
            raise DataError(f"Module: must be called with {', '.join(names)}, but got {got}.")
        self._check_values()
        *inputs, targets = map(np.asarray, user_inputs)
        self._check_labels(targets)
        block, weights, factor = self.recipe.block, None, 1.0
        if block is not None:
            targets, weights, factor = block.weigh(targets)
        data = self.trainer.session.open(_given(inputs), targets)
        data.check_all()  # a bad sample changes no gradient
        outputs = self._outputs(inputs)
        step = self._train if self.training else self._evaluate
        results = (np.asarray(step(inputs, targets, weights, factor), np.float32), *outputs)
        if all(isinstance(value, OrtValue) for value in user_inputs):
            wrapped = tuple(map(OrtValue, results))
            return wrapped if outputs else wrapped[0]
        return results if outputs else results[0]

    def train(self, mode: bool = True) -> "Module":
        """Makes calls training steps.

        Args:
            mode: False makes them evaluation steps.

        Returns:
            The module.
        """
        self.training = mode
        return self

    def eval(self) -> "Module":
        """Makes calls evaluation steps.

        Returns:
            The module.
        """
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """Makes the next training step begin a new sum of gradients."""
        self._reset = True

    def get_contiguous_parameters(self, trainable_only: bool = True) -> OrtValue:
        """Returns a copy of the parameters as one array, sorted by name.

        Args:
            trainable_only: whether to leave out the frozen parameters.

        Raises:
            ModelError: if parameters of a nominal checkpoint have no values yet.
        """
        return OrtValue(self._state.odt_state.get_contiguous_parameters(trainable_only))

    def get_parameters_size(self, trainable_only: bool = True) -> int:
        """Returns the number of values of the parameters.

        Args:
            trainable_only: whether to leave out the frozen parameters.
        """
        return self._state.odt_state.parameters_size(trainable_only)

    def copy_buffer_to_parameters(self, buffer: Any, trainable_only: bool = True) -> None:
        """Sets the parameters from an array, in the order of `get_contiguous_parameters`.

        Args:
            buffer: an array or OrtValue (get_parameters_size(trainable_only),).
            trainable_only: whether the buffer leaves out the frozen parameters.

        Raises:
            DataError: if the number or dtype of the values differs.
        """
        self._state.odt_state.copy_buffer_to_parameters(buffer, trainable_only)

    def export_model_for_inferencing(
        self, inference_model_uri: Path, graph_output_names: Sequence[str]
    ) -> None:
        """Writes the model with the current parameters.

        Args:
            inference_model_uri: path of the new file: .tflite, .circle, or any other name for the
                format of the model.
            graph_output_names: names of all outputs of the model.

        Raises:
            OptionError: if the names are others; the message lists the outputs.
            ModelError: if the file cannot be written, or its name is that of an ONNX file.
        """
        outputs = [t.name for t in self.trainer.model.outputs]
        if sorted(graph_output_names) != sorted(outputs):
            raise OptionError(
                "graph_output_names",
                f"must be all outputs of the model, {outputs}",
                list(graph_output_names),
            )
        refuse_onnx(inference_model_uri, "the name of a .tflite or .circle file")
        self._check_values()
        self.trainer.export(inference_model_uri)

    def input_names(self) -> list[str]:
        """Returns the names of the arguments of a call: the model's inputs; labels or target."""
        return [*(t.name for t in self.trainer.model.inputs), self._target_name]

    def output_names(self) -> list[str]:
        """Returns the names of the results of a call: loss, and the additional outputs."""
        return ["loss", *self.recipe.additional_output_names]

    def gradient(self, name: str) -> Array | None:
        """Returns a copy of the summed gradient of a parameter; None if there is none.

        Args:
            name: name of the parameter.
        """
        if self._state.odt_state.is_nominal:
            return None
        sums = self._applied if self._goes_on else self.trainer.gradients
        return sums[name].copy() if name in sums else None

    def apply_gradients(self) -> None:
        """Updates the parameters with the summed gradients, which are kept; for Optimizer.

        Raises:
            TrainingError: if there was no training step since the last update.
        """
        self._check_values()
        gradients = self.trainer.gradients
        if not gradients:
            raise TrainingError(
                "Optimizer.step: must follow a training step, but there was none since the last "
                "update. Call the module in training mode first."
            )
        for name, a in gradients.items():
            np.copyto(self._applied.setdefault(name, np.empty_like(a)), a)
        self.trainer.apply_gradients()
        self._goes_on = True

    def close(self) -> None:
        """Ends the worker threads; the state stays readable."""
        self.trainer.close()

    @property
    def _target_name(self) -> str:
        return "labels" if self._target_kind == LABELS else "target"

    @property
    def _target_kind(self) -> str:
        return LOSSES[self.trainer.session.samples.losses[0][0]].targets

    def _check_values(self) -> None:
        if self._state.odt_state.is_nominal:
            raise ModelError(
                f"{self.uri}: parameters must have values, but the checkpoint is nominal. Set them "
                "with Module.copy_buffer_to_parameters."
            )

    def _check_labels(self, targets: Array) -> None:
        shape = self.trainer.session.samples.target_specs[0].shape
        rows = targets.ndim > 1 + len(shape) and targets.shape[-1] != 1
        if self._target_kind == LABELS and (rows or targets.dtype.kind not in "iu"):
            raise DataError(
                f"labels: must be class numbers (N{''.join(f', {n}' for n in shape)}), int32 or "
                f"int64, but got {targets.shape} {targets.dtype}. `argmax(-1)` converts one-hot "
                "rows."
            )

    def _outputs(self, inputs: list[Array]) -> tuple[Array, ...]:
        """Computes the additional outputs."""
        if not self.recipe.additional_output_names:
            return ()
        values = self.trainer.predict(_given(inputs))
        names = [t.name for t in self.trainer.model.outputs]
        by_name = dict(zip(names, values if len(names) > 1 else [values], strict=True))
        return tuple(by_name[name] for name in self.recipe.additional_output_names)

    def _train(
        self, inputs: list[Array], targets: Array, weights: Array | None, factor: float
    ) -> float:
        """Adds the gradients of a batch, in parts of the planned size; returns its loss."""
        trainer, samples, size = self.trainer, len(targets), self.recipe.batch_size
        if self._reset:
            for a in trainer.gradients.values():
                a.fill(0)
            self._reset = self._goes_on = False
        loss = 0.0
        for at in range(0, samples, size):
            rows = slice(at, at + size)
            y, w = targets[rows], None if weights is None else weights[rows]
            x = _given([a[rows] for a in inputs])
            loss += trainer.forward_backward(x, y, factor * len(y) / samples, w)
        if self._goes_on:
            for name, a in trainer.gradients.items():
                np.add(a, self._applied[name], out=a)
            self._goes_on = False
        return loss

    def _evaluate(
        self, inputs: list[Array], targets: Array, weights: Array | None, factor: float
    ) -> float:
        return factor * self.trainer.evaluate(_given(inputs), targets, weights)["loss"]


def _given(inputs: list[Array]) -> Any:
    """Returns the inputs in the form that a trainer takes."""
    return inputs if len(inputs) > 1 else inputs[0]
