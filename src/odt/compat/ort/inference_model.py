"""The model without its loss, with parameters as initializers: what runtimes run."""

from collections.abc import Mapping, Sequence

from odt.core.formats.onnx.messages import NODE
from odt.core.formats.onnx.writer import Parts, float_info, tensor
from odt.core.formats.protobuf import MessageReader, Span
from odt.kernels.rows.opdef import Array


def inference_model(
    data: memoryview, outputs: Sequence[str], parameters: Mapping[str, Array]
) -> list[bytes | memoryview]:
    """Returns the bytes of the model, in parts.

    Nodes, opsets and everything else are those of the evaluation model, byte for byte.

    Args:
        data: an evaluation model.
        outputs: names of the outputs.
        parameters: parameter → values, in order.
    """
    parts = Parts.from_bytes(data)
    needed, nodes = set(outputs), list[bytes | memoryview]()
    for encoded in reversed(parts.nodes):
        content = memoryview(encoded)
        node = MessageReader(content).read(Span(0, len(content)), NODE)
        if needed.intersection(node.get("output", [])):
            nodes.append(encoded)
            needed.update(node.get("input", []))
    initializers: dict[str, bytes | memoryview] = {
        name: tensor(name, a) for name, a in parameters.items() if name in needed
    }
    initializers |= {n: t for n, t in parts.initializers.items() if n in needed}
    infos = parts.values | parts.outputs
    whole = Parts(
        parts.model,
        nodes[::-1],
        initializers,
        {name: i for name, i in parts.inputs.items() if name in needed and name not in parameters},
        {name: infos.get(name) or float_info(name) for name in outputs},
        {n: v for n, v in infos.items() if n not in outputs and n in needed},
        parts.rest,
    )
    return whole.chunks()
