"""Pipelines of augmented batches in `fit`, and their memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odt.core.data.protocol import Data
from odt.core.model.graph import LoweredGraph
from odt.core.runtime.runtime import Runtime
from odt.data.run_samples import Samples
from odt.kernels.rows.opdef import TensorSpec

if TYPE_CHECKING:
    from odt.core.data.augmentations.augmentation import Augmentation
    from odt.core.training.input_pipeline import InputPipeline


def pipeline_of(
    data: Data,
    samples: Samples,
    graph: LoweredGraph,
    specs: Runtime,
    batch: int,
    augmentations: "Sequence[Augmentation]",
) -> "InputPipeline":
    """Makes the pipeline of a training run.

    Args:
        data: source of the samples.
        samples: samples of the run.
        graph: the model's graph for the batch size of the file.
        specs: specs of one sample of training.
        batch: batch size.
        augmentations: changes of the samples.

    Raises:
        OptionError: if an augmentation does not fit the data.
    """
    from odt.core.training.input_pipeline import InputPipeline

    shapes = [
        [column.rows.shape[1:], *_reshaped(graph, i)]
        for i, column in zip(graph.inputs, samples.data.inputs, strict=True)
    ]
    numbers, seed = samples.order.samples, samples.order.seed
    inputs, targets = specs.input_specs, specs.target_specs
    return InputPipeline(data, numbers, inputs, targets, shapes, batch, augmentations, seed)


def _reshaped(graph: LoweredGraph, tensor: int) -> list[tuple[int, ...]]:
    """The shape to which the model reshapes a flat input, which is that of an image or a sound."""
    (size, *_), nodes = graph.tensors[tensor].spec.shape, graph.nodes
    readers = [n for n in nodes if tensor in n.inputs]
    if len(readers) != 1 or readers[0].op != "RESHAPE":
        return []
    first, *shape = graph.tensors[readers[0].outputs[0]].spec.shape
    return [tuple(shape)] if first == size else []


def parsed_augmentations(augmentations: Any) -> "tuple[Augmentation, ...]":
    """Returns augmentations as given to `fit`; loads their classes only if there are any.

    Raises:
        OptionError: if a name is unknown or a value is invalid.
    """
    if not augmentations:
        return ()
    from odt.core.data.augmentations.registry import parse_augmentations

    return parse_augmentations(augmentations)


def batches_nbytes(specs: Sequence[TensorSpec], batch: int, augmentations: Any) -> int:
    """Returns the bytes of the batches that a pipeline prepares.

    Args:
        specs: specs of one sample of each input and target.
        batch: batch size.
        augmentations: as in `fit`; None for none.
    """
    changes = parsed_augmentations(augmentations)
    if not changes:
        return 0
    from odt.core.training.input_pipeline import prepared_nbytes

    return prepared_nbytes(specs, batch, changes)
