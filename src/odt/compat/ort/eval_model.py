"""eval_model.onnx: a model with its loss, whose parameters are inputs, as ONNX Runtime has it.

training_model.onnx of odt is the same file: odt makes no gradient graph.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from odt.compat.ort.onnx_source import OnnxSource
from odt.core.formats.onnx.messages import NODE
from odt.core.formats.onnx.writer import Parts, float_info, message, tensor, value_info
from odt.core.formats.protobuf import Message, MessageReader, Span, read_fields
from odt.core.storage.reading import printable
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

if TYPE_CHECKING:
    from odt.compat.ort.onnxblock.recorder import Recorder

FLOAT = np.dtype(np.float32)
INPUT, OUTPUT, ATTRIBUTE = 1, 2, 5  # fields of a node


@dataclass(frozen=True, slots=True)
class NamedArray:
    """A parameter, which `SerializeToString` gives as a TensorProto.

    Attributes:
        name: name of the parameter.
        values: its values.
    """

    name: str
    values: Array

    def SerializeToString(self) -> bytes:  # noqa: N802  # as in protobuf
        """Returns the bytes of a TensorProto."""
        return tensor(self.name, self.values)


@dataclass(frozen=True, slots=True)
class InputParameters:
    """Parameters that become inputs, in the order of the model.

    Attributes:
        trained, frozen: parameter → its values.
    """

    trained: Mapping[str, NamedArray] = field(default_factory=dict)
    frozen: Mapping[str, NamedArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalModel:
    """An evaluation model.

    Attributes:
        data: its bytes.
        parameters: the parameters, with their values.
    """

    data: bytes
    parameters: InputParameters


def parameters_of(
    source: OnnxSource, trained: Collection[str], frozen: Collection[str]
) -> InputParameters:
    """Returns parameters by name, in the order of the model.

    Raises:
        OptionError: if names are unknown, all at once; or no parameter trains.
    """
    constants = {t.name: t.data for t in source.file.graph.tensors if t.data is not None and t.name}
    for option, names in (("requires_grad", trained), ("frozen_params", frozen)):
        unknown = [n for n in names if n not in constants]
        if unknown:
            raise OptionError(
                option,
                "must name initializers of the model",
                ", ".join(map(printable, unknown)),
                _nearest(unknown, constants),
            )
    if not trained:
        rule = "must name a parameter that trains"
        raise OptionError("requires_grad", rule, "none", f"It has {_listed(constants)}.")
    both = sorted(set(trained).intersection(frozen))
    if both:
        rule = "must have no parameter in common"
        raise OptionError("requires_grad, frozen_params", rule, ", ".join(both))
    floats = [n for n in trained if constants[n].dtype != FLOAT]
    if floats:
        rule = "must name parameters of float32"
        raise OptionError("requires_grad", rule, ", ".join(map(printable, floats)))
    each = {n: NamedArray(n, a) for n, a in constants.items()}
    return InputParameters(
        {n: a for n, a in each.items() if n in trained},
        {n: a for n, a in each.items() if n in frozen},
    )


def _nearest(unknown: Sequence[str], names: Collection[str]) -> str:
    """Returns a sentence with the names that are most like unknown ones."""
    near = [n for name in unknown for n in get_close_matches(name, names, 2)]
    text = ", ".join(dict.fromkeys(map(printable, near)))
    return f"Similar ones are {text}." if near else f"It has {_listed(names)}."


def _listed(names: Collection[str]) -> str:
    """Returns the first 20 names as text."""
    first = [printable(n) for n in list(names)[:20]]
    more = f" and {len(names) - len(first)} more" if len(names) > len(first) else ""
    return f"{', '.join(first)}{more}" if first else "none"


def eval_model(
    recorder: "Recorder", outputs: Sequence[str], parameters: InputParameters
) -> EvalModel:
    """Returns a recorded model with these outputs, and with parameters as inputs.

    Args:
        recorder: the model with its loss.
        outputs: names of the outputs, the loss first.
        parameters: what becomes inputs.

    Raises:
        OptionError: if there is no tensor of a name.
    """
    source, parts = recorder.source, recorder.parts
    arrays = {**parameters.trained, **parameters.frozen}
    order = [t.name for t in source.file.graph.tensors] if source else []
    inputs = {
        name: value_info(name, arrays[name].values.dtype, arrays[name].values.shape)
        for name in order
        if name in arrays
    }
    samples = {name: i for name, i in parts.inputs.items() if name not in parts.initializers}
    initializers = {n: t for n, t in parts.initializers.items() if n not in arrays}
    if source:
        external = source.file.external
        for t in source.file.graph.tensors:
            if t.buffer in external and t.name in initializers and t.data is not None:
                initializers[t.name] = tensor(t.name, t.data)
    whole = Parts(
        parts.model,
        [n for n in map(_in_evaluation, parts.nodes) if _output_of(n) not in arrays],
        initializers,
        {**samples, **inputs},
        {name: _output(recorder, name) for name in outputs},
        {n: v for n, v in (parts.values | parts.outputs).items() if n not in outputs},
        parts.rest,
    )
    return EvalModel(b"".join(whole.chunks()), parameters)


def _output(recorder: "Recorder", name: str) -> bytes | memoryview:
    infos = recorder.parts.values | recorder.parts.outputs
    if name in infos:
        return infos[name]
    if not recorder.has(name):
        rule = "must be tensors of the model"
        outputs = ", ".join(recorder.parts.outputs)
        raise OptionError("additional_output_names", rule, repr(name), f"Outputs: {outputs}.")
    shape = recorder.shape_of_number(name)
    return float_info(name) if shape is None else value_info(name, FLOAT, shape)


def _node(encoded: bytes | memoryview) -> Message:
    """Reads a NodeProto."""
    data = memoryview(encoded)
    return MessageReader(data).read(Span(0, len(data)), NODE)


def _output_of(encoded: bytes | memoryview) -> str:
    """Returns the name of the constant that a node is; empty for other nodes."""
    node = _node(encoded)
    outputs = node.get("output", [])
    return outputs[0] if node.get("op_type") == "Constant" and len(outputs) == 1 else ""


def _in_evaluation(encoded: bytes | memoryview) -> bytes | memoryview:
    """Returns a node as in evaluation, with the one output that it then has."""
    node = _node(encoded)
    kind, attributes = node.get("op_type"), [a.get("name") for a in node.get("attribute", [])]
    is_dropout = kind == "Dropout" and len(node.get("input", [])) > 2
    is_norm = kind == "BatchNormalization" and "training_mode" in attributes
    if not is_dropout and not is_norm:
        return encoded
    limits = {INPUT: 1 if is_dropout else 5, OUTPUT: 1}
    data = memoryview(encoded)
    entries, counts = list[tuple[int, memoryview]](), Counter[int]()
    for number, _, value in read_fields(data, Span(0, len(data))):
        if not isinstance(value, Span):
            continue  # no field of a node is a number
        content = data[value.offset : value.end]
        counts[number] += 1
        is_mode = number == ATTRIBUTE and b"training_mode" in bytes(content)
        if not is_mode and counts[number] <= limits.get(number, len(data)):
            entries.append((number, content))
    return message(*entries)
