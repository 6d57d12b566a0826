"""Module: training and evaluation steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.compat.ort.checkpoint_state import CheckpointState, Path
from odt.compat.ort.onnx_model import OnnxModel, read_onnx_model
from odt.compat.ort.onnx_state import OnnxState
from odt.compat.ort.ort_value import OrtValue
from odt.compat.ort.recipe_model import RecipeModel
from odt.compat.ort.steps import Outputs
from odt.core.recipe.option_values import list_of_names
from odt.core.storage.closing import Closing
from odt.errors import DataError, ModelError, OptionError
from odt.text import quantity
from odt.training.trainer import Trainer
from odt.training.weights import Array


class Module(Closing):
    """Runs training and evaluation steps of a model that `generate_artifacts` prepared.

    A training step adds to the gradients, which are kept until the first step after
    `lazy_reset_grad`. A module is a context manager; `close` ends its threads.

    Attributes:
        training: whether a call is a training step.
        model: the model with its loss.
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
            train_model_uri: path of training_model.onnx, or .json.
            state: the state, which is that of the module from now on.
            eval_model_uri: path of eval_model.onnx, or .json; evaluation works without it, except
                with a training model that ONNX Runtime wrote.
            device: must be cpu.
            session_options: must be None.
            memory_budget: peak memory of the process, such as "64MB" or a number of bytes.
            workers: number of worker threads; chosen by odt if left out.

        Raises:
            ModelError: if a file cannot be read, or the files do not belong together.
            OptionError: if the device is not cpu, or a module uses the state already.
        """
        if device.partition(":")[0] != "cpu":
            raise OptionError("device", "must be cpu", device)
        if session_options is not None:
            rule = "must be None"
            raise OptionError("session_options", rule, session_options, "Give `workers=`.")
        if state.module is not None:
            rule = "must be used by one module"
            raise OptionError("state", rule, "a second one", "Load the checkpoint again.")
        uris = train_model_uri, eval_model_uri
        options: dict[str, Any] = {"memory_budget": memory_budget, "workers": workers}
        self.model: OnnxModel | RecipeModel
        if isinstance(state.odt_state, OnnxState):
            self.model = read_onnx_model(*uris, state.odt_state, **options)
        else:
            self.model = RecipeModel(*uris, state.odt_state, **options)
        self.training = True
        self._state = state
        state.attach(self, self.model.state)

    @property
    def trainer(self) -> Trainer:
        """The trainer of odt; for an ONNX model, one for the shapes of the last batch."""
        return self.model.trainer

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
        names = self.model.input_names
        if len(user_inputs) != len(names):
            got = quantity(len(user_inputs), "value")
            raise DataError(f"Module: must be called with {', '.join(names)}, but got {got}.")
        self._check_values()
        arrays = [np.asarray(value) for value in user_inputs]
        forms = [self.training, *[(a.dtype, a.shape) for a in arrays]]
        steps = self.model.steps
        samples = steps.samples(forms, arrays)
        if samples is None:
            batch = self.model.batch(arrays, train=self.training)
            samples = steps.open(self.trainer, forms, batch)
        batch, data = samples
        trainer = self.trainer
        additional = self.model.additional
        outputs = Outputs(trainer, additional, data.length) if additional else None
        loss = np.asarray(steps.run(trainer, batch, data, outputs, train=self.training), np.float32)
        wrap = {type(value) for value in user_inputs} == {OrtValue}
        if outputs is None:
            return OrtValue(loss) if wrap else loss
        results = (loss, *outputs.arrays)
        return tuple(map(OrtValue, results)) if wrap else results

    def train(self, mode: bool = True) -> "Module":
        """Makes each call a training step.

        Args:
            mode: False makes them evaluation steps.

        Returns:
            The module.
        """
        self.training = mode
        return self

    def eval(self) -> "Module":
        """Makes each call an evaluation step.

        Returns:
            The module.
        """
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """Makes the next training step begin a new sum of gradients."""
        self.model.steps.reset()

    def get_contiguous_parameters(self, trainable_only: bool = True) -> OrtValue:
        """Returns a copy of the parameters as one array.

        They follow one another in the order of the ONNX model; sorted by name for other models.

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
            inference_model_uri: path of the new file: .onnx for an ONNX model; .tflite, .circle, or
                any other name for the format of the model otherwise.
            graph_output_names: names of the outputs; for models other than ONNX, all of them.

        Raises:
            OptionError: if the names differ from these; the message lists the outputs.
            ModelError: if the file cannot be written, or its name is that of another format.
        """
        self._check_values()
        names = list_of_names("graph_output_names", graph_output_names) or ()
        self.model.export(inference_model_uri, names)

    def input_names(self) -> list[str]:
        """Returns the names of the arguments of a call: the model's inputs, and the targets."""
        return list(self.model.input_names)

    def output_names(self) -> list[str]:
        """Returns the names of the results of a call: loss, and the additional outputs."""
        return list(self.model.output_names)

    def gradient(self, name: str) -> Array | None:
        """Returns a copy of the summed gradient of a parameter; None if there is none.

        Args:
            name: name of the parameter.
        """
        return None if self._state.odt_state.is_nominal else self.model.gradient(name)

    def apply_gradients(self) -> None:
        """Updates the parameters with the summed gradients, which are kept; for Optimizer.

        Raises:
            TrainingError: if there was no training step since the last update.
        """
        self._check_values()
        self.model.steps.update(self.trainer)

    def close(self) -> None:
        """Ends the worker threads; the state stays readable."""
        self.model.close()

    def _check_values(self) -> None:
        if self._state.odt_state.is_nominal:
            raise ModelError(
                f"{self.model.uri}: parameters must have values, but the checkpoint is nominal. "
                "Set them with Module.copy_buffer_to_parameters."
            )
