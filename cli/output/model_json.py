"""The content of a model file as plain values for JSON: what `odt inspect` prints."""

from typing import Any

from odt.cli.output.spelling import spell
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.recipe.inspection import Inspection
from odt.core.recipe.lowered_model import LoweredModel
from odt.core.recipe.resolve import counted_operators
from odt.kernels.rows.opdef import TensorSpec


def content_of(lowered: LoweredModel, inspection: Inspection) -> dict[str, object]:
    """Returns file, signatures, tensors, operators and training info.

    Args:
        lowered: the lowered model of the file.
        inspection: shapes, and the parameters that train.
    """
    model = lowered.file
    from_each = inspection.from_each()
    graph = model.graph
    counted = counted_operators(lowered.part.graph)
    trained = {i for each in inspection.trained.values() for i in each}
    info = stored_training_info(model)
    operators = [
        {
            "index": node.origin,
            "operator": node.op,
            "inputs": [i for i in node.inputs if i >= 0],
            "outputs": list(node.outputs),
            "parameters": inspection.values(inspection.trained.get(node.origin, ())),
            "last": max(counted - node.origin, 0),
            "trains": from_each.get(node.origin, 0),
        }
        for node in graph.nodes
    ]
    tensors = [
        {
            "index": i,
            "name": tensor.name,
            **_spec(inspection.specs.get(i, tensor.spec)),
            "constant": tensor.data is not None,
            "trainable": i in trained,
            "held": inspection.constant_reasons.get(i, ""),
        }
        for i, tensor in enumerate(graph.tensors)
    ]
    return {
        "path": model.path,
        "format": model.format,
        "bytes": len(model.data),
        "subgraphs": model.subgraphs,
        "description": model.description,
        "metadata": {name: len(model.buffer(b)) for name, b in model.metadata.items()},
        "signatures": [
            {"key": s.key, "inputs": list(s.inputs), "outputs": list(s.outputs)}
            for s in model.signatures
        ],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "parameters": inspection.values(sorted(trained)),
        "cannot_be_trained": spell(inspection.refusal),
        "training_info": _plain(info.as_dict()) if info else None,
        "operators": operators,
        "tensors": tensors,
    }


def _spec(spec: TensorSpec) -> dict[str, object]:
    names = spec.dtype.names  # an opaque dtype holds the name of a type that NumPy lacks
    return {"shape": list(spec.shape), "dtype": names[0].lower() if names else spec.dtype.name}


def _plain(value: Any) -> Any:
    """Returns a value of dictionaries, lists, numbers and texts only, for JSON."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value if isinstance(value, int | float | str | None) else str(value)
