"""generate_artifacts on ONNX models: the files of ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odt.compat.ort import onnxblock
from odt.compat.ort.eval_model import EvalModel, eval_model, parameters_of
from odt.compat.ort.onnx_model import BATCH_NORM, OnnxModel
from odt.compat.ort.onnx_source import OnnxSource
from odt.compat.ort.onnx_state import OnnxState
from odt.compat.ort.onnxblock.block import names_of
from odt.compat.ort.onnxblock.recorder import Recorder, current, recording
from odt.compat.ort.optimizer_model import optimizer_model
from odt.core.checkpoints.ort_file import OrtCheckpoint, write_ort_checkpoint
from odt.core.formats.onnx.reader import parse_onnx
from odt.core.model.model import Model as File
from odt.core.recipe.open_shapes import fitting_shapes
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import printable
from odt.dataclass import dataclass
from odt.errors import OptionError, UnsupportedError, warn
from odt.models.model import Model


class OwnLoss(onnxblock.Block):
    """A loss of odt that ONNX does not have: a node of the domain odt."""

    def __init__(self, text: str) -> None:
        """Makes the block.

        Args:
            text: the loss as text, such as "huber:delta=0.5".
        """
        self._text = text

    def build(self, output_name: str, target_name: str = "target") -> str:
        """Adds the loss.

        Args:
            output_name: name of the output.
            target_name: name of the targets, a new input unless there is such a tensor.
        """
        recorder = current()
        if not recorder.has(target_name):
            recorder.input_like(target_name, output_name)
        inputs = [output_name, target_name]
        return recorder.node("Loss", inputs, {"loss": self._text}, domain="odt", word="loss")


@dataclass(frozen=True, slots=True)
class OnnxArguments:
    """Arguments of generate_artifacts for an ONNX model; the names are not checked yet."""

    source: OnnxSource
    requires_grad: tuple[str, ...] | None
    frozen_params: tuple[str, ...]
    loss: onnxblock.Block
    optimizer: Mapping[str, Any] | None
    additional_output_names: tuple[str, ...]
    loss_input_names: tuple[str, ...] | None

    def evaluation_model(self) -> EvalModel:
        """Returns the evaluation model, after planning its training.

        Raises:
            UnsupportedError: if odt cannot train the model or the loss.
            OptionError: if a name is unknown.
        """
        trained = self.requires_grad
        if trained is None:
            parameters = Model(self.source.file).parameters
            trained = tuple(n for n in parameters if n not in self.frozen_params)
        inputs_of_model = parameters_of(self.source, trained, self.frozen_params)
        graph = self.source.file.graph
        with recording(Recorder(self.source)) as recorder:
            inputs = self.loss_input_names or [graph.tensors[i].name for i in graph.outputs]
            results = [*names_of(self.loss(*inputs)), *self.additional_output_names]
            model = eval_model(recorder, list(dict.fromkeys(results)), inputs_of_model)
        path = self.source.file.path
        file = parse_onnx(memoryview(model.data), path)
        trial = OnnxModel(file, OnnxState(_checkpoint(model), path))
        self._check_statistics(file)
        try:
            trial.plan({})
        except UnsupportedError:  # open axes are 1 then, which may be too small for a filter
            graph, shapes = self.source.file.graph, fitting_shapes(self.source.file)
            if not shapes:
                raise
            trial.plan({graph.tensors[i].name: shape for i, shape in shapes.items()})
        trial.close()
        return model

    def _check_statistics(self, model: File) -> None:
        """Says how batch normalization trains; refuses running statistics in requires_grad."""
        graph = model.graph
        statistics = [
            graph.tensors[i].name
            for node in graph.nodes
            if node.op == BATCH_NORM
            for i in node.inputs[3:5]
        ]
        trained = [n for n in statistics if n in (self.requires_grad or ())]
        if trained:
            rule = "must not name running statistics of BatchNormalization"
            remedy = "Those in frozen_params move in training."
            raise OptionError("requires_grad", rule, ", ".join(map(printable, trained)), remedy)
        if statistics:
            moving = sum(n in self.frozen_params for n in statistics)
            warn(
                "Warning: BatchNormalization trains with the statistics of each batch, as in ONNX "
                f"Runtime. {moving} of {len(statistics)} running statistics are in frozen_params: "
                "these move in training; the others stay."
            )

    def write(self, model: EvalModel, folder: Path, prefix: str, *, nominal: bool) -> None:
        """Writes the files.

        Raises:
            ModelError: if a file cannot be written.
        """
        for name in ("training_model", "eval_model"):
            write_atomically(folder / f"{prefix}{name}.onnx", [model.data])
        contents = _checkpoint(model)
        write_ort_checkpoint(contents, folder / f"{prefix}checkpoint")
        if nominal:
            names = _checkpoint(model, nominal=True)
            write_ort_checkpoint(names, folder / f"{prefix}nominal_checkpoint")
        if self.optimizer is not None:
            path = folder / f"{prefix}optimizer_model.onnx"
            write_atomically(path, [optimizer_model(self.optimizer)])


def _checkpoint(model: EvalModel, *, nominal: bool = False) -> OrtCheckpoint:
    trained, frozen = (
        {name: p.values for name, p in each.items()}
        for each in (model.parameters.trained, model.parameters.frozen)
    )
    return OrtCheckpoint(trained, frozen, is_nominal=nominal)
