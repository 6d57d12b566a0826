"""Prediction with model files: the outputs for each sample, or frame by frame."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.data import dataset
from odt.core.data.array_columns import array_columns
from odt.core.model.record import Record
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.sequences import need_sequences
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.closing import Closing
from odt.core.training.inference import Predictor
from odt.core.training.passes import Seen
from odt.data.new_data import NewData, OpenedData, Show, open_inputs
from odt.data.sources import samples_of
from odt.datasets.new_data import for_model
from odt.habits import known_arguments
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.models.model import Model, Path, computed_of, file_of


class ModelPredictor(Closing):
    """Computes the outputs of a model file, as far as odt computes them.

    Attributes:
        output_names: names of the outputs.
        output_tensors: their numbers in the file.
        left_out: which operators are left out, as text; empty for none.

    Args:
        model: the model; quantized models compute integers.
        batch_size: samples of a batch.
        micro_batch: samples that a worker computes at once; None to choose.
        workers: number of worker threads; None to choose.

    Raises:
        OptionError: if the model keeps state and the length of its sequences is not known.
        UnsupportedError: if odt cannot compute an operator.
    """

    def __init__(
        self,
        model: Model,
        batch_size: int = 32,
        *,
        micro_batch: int | None = None,
        workers: int | None = None,
    ) -> None:
        self._file = file_of(model)
        need_sequences(self._file)
        lowered = computed_of(model)
        self.left_out = describe_left_out(lowered, "prediction")
        self.output_names = lowered.graph.output_names
        self.output_tensors = lowered.graph.outputs
        self._predictor = Predictor(
            inference_graphs(lowered), batch_size, micro_batch=micro_batch, workers=workers
        )

    @property
    def output_specs(self) -> Sequence[TensorSpec]:
        """Shape and dtype of one sample of each output."""
        return self._predictor.runtime.output_specs

    def open(
        self, x: Any, show: Show | None = None, *, full_size: bool = False
    ) -> tuple[dataset.DataSet, OpenedData | None]:
        """Opens inputs for the model.

        Args:
            x: inputs (N, …), as of `odt.predict`.
            show: called with each note about the samples.
            full_size: whether new photos are read in their own size, and resized afterwards.

        Returns:
            The samples, and the new data that hold them; None for arrays and data files.

        Raises:
            DataError: if the inputs do not fit the model.
        """
        specs = self._predictor.runtime
        if isinstance(x, NewData):
            record = x.record_for(self._file)
            opened = open_inputs(x.source, record, specs, show, full_size=full_size)
            return opened.samples, opened
        if isinstance(x, dataset.DataSet):
            return x, None
        return samples_of(x, None, specs), None

    def run(self, data: dataset.DataSet) -> Iterator[Sequence[Array]]:
        """Yields the outputs, batch after batch, in arrays (n, …) that are reused."""
        return self._predictor.run(data, range(data.length))

    def frames(self, pictures: Iterable[Array], record: Record) -> Iterator[Sequence[Array]]:
        """Yields the outputs (1, …) for one picture after the other.

        Args:
            pictures: pictures (H, W, C), uint8.
            record: the preprocessing record.
        """
        specs = self._predictor.runtime.input_specs
        quantizations = self._predictor.runtime.quantizations
        steps = for_model(record, specs[0], quantized=quantizations[0] is not None)
        for picture in pictures:
            rows = [steps.apply(picture)[np.newaxis]]
            yield from self.run(dataset.DataSet(array_columns(rows, specs, "frame", quantizations)))

    def close(self) -> None:
        """Ends the worker threads."""
        self._predictor.close()


@known_arguments()
@checked_arguments
def predict(
    model: Model | Path,
    x: Any,
    *,
    batch_size: int = 32,
    micro_batch: int | None = None,
    workers: int | None = None,
    progress: Seen | None = None,
    show: Show | None = None,
) -> Any:
    """Computes the outputs of a model file, without the memory that its training would take.

    Args:
        model: a model or the path of its file; quantized models compute integers.
        x: inputs (N, …), as in `Trainer.fit`, or NewData.
        batch_size: samples of a batch.
        micro_batch: samples that a worker computes at once; chosen by odt if left out.
        workers: number of worker threads; chosen by odt if left out.
        progress: called after each batch with the number of samples computed so far and the number
            of all samples.
        show: called with each note about the model and the samples, such as `print`.

    Returns:
        An array (N, …); a list of arrays if the model has several outputs.

    Raises:
        DataError: if the inputs do not fit the model.
        ModelError: if the model cannot be read.
        OdtError: if there is no preprocessing record for NewData.
        OptionError: if an argument is invalid, or the model keeps state and the length of its
            sequences is not known.
        UnsupportedError: if odt cannot compute an operator.
    """
    source = model if isinstance(model, Model) else Model(file_of(model))
    with ModelPredictor(source, batch_size, micro_batch=micro_batch, workers=workers) as predictor:
        if show is not None and predictor.left_out:
            show(predictor.left_out)
        data, opened = predictor.open(x, show)
        outputs = [
            np.empty((data.length, *spec.shape), spec.dtype) for spec in predictor.output_specs
        ]
        first = 0
        for rows in predictor.run(data):
            for output, part in zip(outputs, rows, strict=True):
                output[first : first + len(part)] = part
            first += len(rows[0])
            if progress is not None:
                progress(first, data.length)
    if opened is not None:
        opened.show_remarks(show)
    return outputs[0] if len(outputs) == 1 else outputs
