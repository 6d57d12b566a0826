"""Pipelines of augmented batches in `fit`, and their memory.

Modules of augmentations are loaded by the first run that has any: most runs on a device have none.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odt.core.data.column import Column
from odt.core.data.protocol import Data, Scales, scales_of
from odt.core.model.graph import LoweredGraph
from odt.core.recipe.sample_specs import SampleSpecs
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
    runtime: Runtime,
    batch: int,
    augmentations: "Sequence[Augmentation]",
) -> "InputPipeline":
    """Returns the pipeline of a training run, which allocates its batches.

    Args:
        data: source of the samples.
        samples: samples of the run.
        graph: the model's graph for the batch size of the file.
        runtime: runtime of training, which knows the specs of a sample's inputs and targets.
        batch: number of samples in a batch.
        augmentations: augmentations of a sample, in order.

    Raises:
        OptionError: if an augmentation does not fit the data.
    """
    from odt.core.training.input_pipeline import InputPipeline

    shapes = [
        _sample_shapes(graph, tensor, column)
        for tensor, column in zip(graph.inputs, samples.data.inputs, strict=True)
    ]
    weights = weight_specs(runtime, scales_of(data.weights))
    return InputPipeline(
        data,
        samples.order.samples,
        inputs=runtime.input_specs,
        targets=(*runtime.target_specs, *weights),
        shapes=shapes,
        batch=batch,
        augmentations=augmentations,
        seed=samples.order.seed,
    )


def weight_specs(specs: SampleSpecs | Runtime, scales: Scales) -> tuple[TensorSpec, ...]:
    """Returns the specs of the weights of one sample that `read` gives, for each loss."""
    if scales is Scales.VALUES:
        return tuple(output for _, output in specs.losses)
    return specs.position_specs if scales is Scales.POSITIONS else ()


def _sample_shapes(graph: LoweredGraph, tensor: int, column: Column) -> list[tuple[int, ...]]:
    """Returns the shape of an input's sample in the data, then that to which the model reshapes it.

    A model that takes a flat image or sound begins with a reshape, which tells its axes.

    Args:
        graph: the model's graph for the batch size of the file.
        tensor: tensor index of the input.
        column: data of the input.
    """
    shapes = [column.rows.shape[1:]]
    readers = [node for node in graph.nodes if tensor in node.inputs]
    if len(readers) == 1 and readers[0].op == "RESHAPE":
        output = readers[0].outputs[0]
        batch, *shape = graph.tensors[output].spec.shape
        if batch == graph.tensors[tensor].spec.shape[0]:
            shapes.append(tuple(shape))
    return shapes


def parsed_augmentations(augmentations: Any) -> "tuple[Augmentation, ...]":
    """Returns the augmentations that the argument `augment` of `fit` describes.

    Args:
        augmentations: the argument; None for none.

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
        batch: number of samples in a batch.
        augmentations: the argument `augment` of `fit`; None for none.

    Raises:
        OptionError: if a name is unknown or a value is invalid.
    """
    parsed = parsed_augmentations(augmentations)
    if not parsed:
        return 0
    from odt.core.training.input_pipeline import prepared_nbytes

    return prepared_nbytes(specs, batch, parsed)
