"""The part of a model file that is used: a signature, and the shapes of its inputs."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.model.graph import FIXED, MAX_AXES, MAX_BYTES
from odt.core.model.model import Model
from odt.core.model.variables import keeps_state
from odt.core.recipe.option_values import check_mapping
from odt.core.storage.reading import whole_number
from odt.errors import OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array, TensorSpec

# Signatures of files that TensorFlow Lite trains on the device, beside the one that predicts.
TRAINING = {
    "train",
    "save",
    "restore",
    "initialize",
    "parameters",
    "get_weights",
    "set_weights",
}
Shapes = Mapping[str, Sequence[int]]
Values = Mapping[str, Any]  # numbers or arrays
T = TypeVar("T")


def read_interface(
    path: str | os.PathLike[str],
    signature: str | None = None,
    input_shapes: Shapes | None = None,
    input_values: Values | None = None,
) -> Model:
    """Reads a model file with a signature, and shapes and values of inputs.

    Args:
        path: the file.
        signature: key of a signature; None for the first subgraph.
        input_shapes: name of an input → its shape, with the axis of the batch.
        input_values: name of an input → its value, if it is the same for all samples.

    Raises:
        ModelError: if the file cannot be read or is damaged.
        OptionError: if there is no such signature or input, or a shape or value does not fit it.
    """
    model = with_input_shapes(read_model(path, signature), input_shapes or {})
    return with_input_values(model, input_values or {})


def with_input_shapes(model: Model, shapes: Shapes) -> Model:
    """Returns a model whose inputs have other shapes than in the file, as if they were resized.

    All other shapes are inferred from those of the inputs.

    Args:
        model: a model file.
        shapes: input → its shape, with the axis of the batch. An input is given by the name of its
            tensor, its name in the signature or its number; a single one also by no name.

    Raises:
        OptionError: if there is no such input, one is given twice, or a shape has other axes than
            the input.
    """
    sizes_by_input: dict[int, tuple[int, ...]] = {}
    for i, shape in _by_input(model, "input_shapes", shapes).items():
        spec = model.graph.tensors[i].spec
        sizes = tuple(shape) if isinstance(shape, Iterable) else ()
        axes = len(spec.shape) or min(len(sizes), MAX_AXES)
        are_sizes = all(isinstance(n, Integral) and n > 0 for n in sizes)
        if len(sizes) != axes or not sizes or not are_sizes:
            raise OptionError(
                "input_shapes",
                f"must give sizes above 0 for the {axes} axes of {model.graph.label(i)}, "
                f"{spec.shape}",
                sizes or repr(shape),
            )
        sizes = tuple(map(int, sizes))
        if TensorSpec(sizes, spec.dtype).nbytes > MAX_BYTES:
            raise OptionError("input_shapes", f"must fit into {MAX_BYTES} bytes", sizes)
        sizes_by_input[i] = sizes
    return resized(model, sizes_by_input)


def with_input_values(model: Model, values: Values) -> Model:
    """Returns a model of which some inputs are constants, such as a sampling rate.

    They are no inputs any longer and do not train; what depends only on them is computed when the
    model is lowered, such as the conditions of branches.

    Args:
        model: a model file.
        values: input → its value, by name or number as in `with_input_shapes`; one number stands
            for all values of the input. Several may be a list.

    Raises:
        OptionError: if there is no such input, one is given twice, a value does not fit it, or no
            input would be left.
    """
    if not values:
        return model
    tensors = list(model.graph.tensors)
    value_by_input = _by_input(model, "input_values", values)
    for i, value in value_by_input.items():
        spec = tensors[i].spec
        data = _as_spec(value, spec)
        if data is None:
            rule = f"must be {spec} for {model.graph.label(i)}"
            raise OptionError("input_values", rule, f"{np.asarray(value)!s:.60}")
        data.flags.writeable = False
        tensors[i] = replace(tensors[i], data=data, formula=True, constant_reason=FIXED)
    if value_by_input.keys() >= {*model.graph.inputs}:
        raise OptionError("input_values", "must leave an input for the samples", _names(model))
    inputs = tuple(i for i in model.graph.inputs if i not in value_by_input)
    return replace(model, graph=replace(model.graph, tensors=tuple(tensors), inputs=inputs))


def _as_spec(value: Any, spec: TensorSpec) -> Array | None:
    """Returns numbers in a shape and dtype; None if they do not fit.

    Floats are rounded to the dtype; nothing else may change a number.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return None
    array = array.reshape(spec.shape) if array.size == spec.size else array
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            data = np.broadcast_to(array.astype(spec.dtype), spec.shape).copy()
    except (TypeError, ValueError):
        return None
    fits = array == data
    if spec.dtype.kind == "f":
        fits |= np.isfinite(data)
    return data if fits.all() else None


def resized(model: Model, shapes: Mapping[int, tuple[int, ...]]) -> Model:
    """Returns a model with new shapes of inputs; the shapes of its outputs are then open.

    Args:
        model: a model file.
        shapes: input tensor → its shape, with the axis of the batch.
    """
    if not shapes:
        return model
    tensors = list(model.graph.tensors)
    for i, shape in shapes.items():
        spec = TensorSpec(shape, tensors[i].spec.dtype)
        tensors[i] = replace(tensors[i], spec=spec, signature=shape)
    for i in model.graph.outputs:
        if i not in shapes:
            spec = TensorSpec((), tensors[i].spec.dtype)
            tensors[i] = replace(tensors[i], spec=spec, signature=())
    graph = replace(model.graph, tensors=tuple(tensors))
    return replace(model, graph=graph, input_shapes=shapes)


def _by_input(model: Model, field: str, values: Mapping[str, T]) -> dict[int, T]:
    """Returns input → what is given for it by name or number.

    Raises:
        OptionError: if there is no such input, one is given twice, or it is no mapping.
    """
    check_mapping(field, values)
    by_input: dict[int, T] = {}
    for name, value in values.items():
        i = _input(model, str(name))
        if i is None:
            rule = f"must name one of the inputs, {_names(model)}"
            raise OptionError(field, rule, name or "none")
        if i in by_input:
            raise OptionError(field, f"must give {model.graph.label(i)} once", f"{name} too")
        by_input[i] = value
    return by_input


def _input(model: Model, name: str) -> int | None:
    """Returns the input with a name, in the file or the signature, or a number."""
    graph = model.graph
    named = [i for i in graph.inputs if graph.tensors[i].name == name]
    for signature in model.signatures:
        if signature.subgraph == model.subgraph:
            named += [i for key, i in signature.inputs.items() if key == name and i in graph.inputs]
    number = whole_number(name)
    if not named and number is not None and number < len(graph.inputs):
        named = [graph.inputs[number]]
    if not named and not name and len(graph.inputs) == 1:
        named = [*graph.inputs]
    return named[0] if len(set(named)) == 1 else None


def _names(model: Model) -> str:
    """Lists the inputs for messages, by name or number."""
    graph = model.graph
    return ", ".join(graph.tensors[i].name or str(k) for k, i in enumerate(graph.inputs))


def check_signature(model: Model) -> None:
    """Checks that a model with several signatures is used by one that predicts.

    Raises:
        UnsupportedError: if its graph has no inputs or outputs, or is a step of training that
            TensorFlow wrote into the file.
    """
    keys = [s.key for s in model.signatures if s.subgraph == model.subgraph]
    others = [s.key for s in model.signatures if s.subgraph != model.subgraph]
    is_step = bool(TRAINING.intersection(keys)) and keeps_state(model.graph)
    if not others or (model.graph.inputs and model.graph.outputs and not is_step):
        return
    what = f"has no {'outputs' if model.graph.inputs else 'inputs'}"
    what = "contains TensorFlow's own training" if is_step else what
    predicting = [key for key in others if key not in TRAINING] or others
    raise UnsupportedError(
        f"{model.path}: the graph must be one that predicts, but got that of the signature "
        f"{', '.join(keys) or 'none'}, which {what}. Give `signature={predicting[0]}`, or another "
        f"of {', '.join(others)}; odt trains the weights that it reads."
    )
