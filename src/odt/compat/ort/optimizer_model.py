"""optimizer_model.onnx: one node with the optimizer and its hyper-parameters.

AdamW and SGD have the nodes of ONNX Runtime, which reads these files. A learning rate other than
its default is in the metadata, which it ignores. Other optimizers of odt have a node of the domain
odt, which only odt reads.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.core.formats.onnx.messages import MODEL
from odt.core.formats.onnx.writer import message, node, sequence_info, value_info
from odt.core.formats.protobuf import Field, Message, MessageReader, ProtobufError, Span
from odt.core.storage.reading import printable, read_input, reading
from odt.errors import ModelError
from odt.kernels.registry import OPTIMIZERS

MICROSOFT, ODT = "com.microsoft", "odt"  # domains
IR_VERSION = 8
OPSET = 17
FLOAT, INT = 1, 2  # AttributeProto.type
RATE = "learning_rate"
DEFAULT_RATE = 0.001  # of ONNX Runtime
CLIP = "InplaceClipGradNorm"
RATE_KEY = "odt.learning_rate"  # of the metadata
METADATA = 14  # field of a ModelProto
ENTRY = {1: Field("key", "text"), 2: Field("value", "text")}
WITH_METADATA = {**MODEL, METADATA: Field("metadata_props", ENTRY, many=True)}
# Attribute of AdamWOptimizer → hyper-parameter of ort_adamw.
ADAMW = {
    "alpha": "beta_1",
    "beta": "beta_2",
    "epsilon": "epsilon",
    "weight_decay": "weight_decay",
}


def optimizer_model(optimizer: Mapping[str, Any]) -> bytes:
    """Returns the model of an optimizer, given as arguments of odt.Trainer."""
    name, values = optimizer["optimizer"], optimizer["hyper_parameters"]
    gradients, nodes = "gradients", list[bytes]()
    if optimizer["clip_norm"]:
        norm = {"max_norm": float(optimizer["clip_norm"])}
        nodes.append(node(CLIP, [gradients], ["clipped"], CLIP, MICROSOFT, norm))
        gradients = "clipped"
    kind, domain = name, ODT
    attributes = {RATE: float(optimizer["learning_rate"]), **_numbers(values)}
    if name == "ort_adamw":
        kind, domain = "AdamWOptimizer", MICROSOFT
        attributes = {a: float(values[p]) for a, p in ADAMW.items()}
        attributes |= {"correct_bias": 1, "adam_mode": 1}
    elif name == "sgd" and not any(values.values()):
        kind, domain, attributes = "SGDOptimizerV2", MICROSOFT, {}
    moments: tuple[str, ...] = ("first_order_moments",)
    inputs = [RATE, "params", gradients]
    if kind == "AdamWOptimizer":
        moments = ("first_order_moments", "second_order_moments")
        inputs = [RATE, "step", "params", gradients, *moments]
    nodes.append(node(kind, inputs, ["update_completed"], kind, domain, attributes))
    number = np.dtype(np.int64)
    graph = message(
        *((1, n) for n in nodes),
        (2, "graph"),
        (11, value_info(RATE, np.dtype(np.float32), (1,))),
        (11, value_info("step", number, (1,))),
        *((11, sequence_info(n)) for n in ("params", "gradients", *moments)),
        (12, value_info("update_completed", np.dtype(bool), (1,))),
    )
    domains = {MICROSOFT: 1, "": OPSET} | ({ODT: 1} if domain == ODT else {})
    opsets = (message((1, n), (2, v)) for n, v in domains.items())
    rate = float(optimizer["learning_rate"])
    has_rate = domain == ODT or rate == DEFAULT_RATE
    metadata = () if has_rate else ((METADATA, message((1, RATE_KEY), (2, repr(rate)))),)
    return message((1, IR_VERSION), (2, "odt"), (7, graph), *((8, o) for o in opsets), *metadata)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {n: float(v) if isinstance(v, float) else int(v) for n, v in values.items()}


def read_optimizer_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the model of an optimizer; returns arguments of odt.Trainer.

    Raises:
        ModelError: if the file cannot be read, or the optimizer is unknown.
    """
    name = os.fspath(path)
    data = memoryview(read_input(path, "an optimizer model", ModelError))
    rule = "must be an optimizer model that generate_artifacts wrote"
    with reading(name, rule, ModelError):
        model = MessageReader(data).read(Span(0, len(data)), WITH_METADATA)
        nodes = {n.get("op_type", ""): n for n in model.get("graph", {}).get("node", [])}
        clip = nodes.pop(CLIP, None)
        if len(nodes) != 1:
            raise ProtobufError(f"nodes {', '.join(map(printable, nodes)) or 'none'}")
        ((kind, only),) = nodes.items()
        values = _attributes(only, data)
        norm = float(_attributes(clip, data)["max_norm"]) if clip else 0.0
        metadata = {e.get("key"): e.get("value", "") for e in model.get("metadata_props", [])}
        rate = float(metadata.get(RATE_KEY, DEFAULT_RATE))
        if only.get("domain") == ODT and kind in OPTIMIZERS:
            rate = values.pop(RATE)
            switches = {p.name for p in OPTIMIZERS[kind].hyper_parameters if p.switch}
            hyper = {n: bool(v) if n in switches else v for n, v in values.items()}
            optimizer = kind
        elif kind == "AdamWOptimizer":
            optimizer, hyper = "ort_adamw", {p: values[a] for a, p in ADAMW.items()}
            if not values.get("correct_bias", 1) or values.get("adam_mode") != 1:
                raise ProtobufError(f"AdamW without correct_bias, or of another mode: {values}")
        elif kind == "SGDOptimizerV2":
            optimizer, hyper = "sgd", {}
        else:
            raise ProtobufError(f"the operator {printable(kind)}")
    return {
        "optimizer": optimizer,
        "learning_rate": rate,
        "hyper_parameters": hyper,
        "clip_norm": norm,
    }


def _attributes(node: Message, data: memoryview) -> dict[str, Any]:
    """Returns the attributes of a node that are numbers."""
    values: dict[str, Any] = {}
    for a in node.get("attribute", []):
        if a.get("type") == FLOAT:
            span = a["f"]
            values[a["name"]] = _short(np.frombuffer(data, "<f4", 1, span.offset)[0])
        elif a.get("type") == INT:
            values[a["name"]] = a.get("i", 0)
    return values


def _short(value: Any) -> float:
    """Returns the shortest decimal number that is this float32: 0.9, not 0.8999999762."""
    return float(str(np.float32(value)))
