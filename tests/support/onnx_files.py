"""Writes ONNX files of a few nodes, without the package onnx."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11}


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(*fields: tuple[int, Any]) -> bytes:
    """Returns a message: whole numbers as varints, floats as 4 bytes, all else as bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else bytes(value)
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def tensor(name: str, values: Any, storage: str = "raw", where: Sequence[str] = ()) -> bytes:
    """Returns a TensorProto.

    Args:
        name: name of the tensor.
        values: its values.
        storage: raw, packed, single (a field for each number) or external.
        where: location, offset and length of external values.
    """
    array = np.asarray(values)
    fields: list[tuple[int, Any]] = [(1, n) for n in array.shape]
    fields += [(2, TYPES[array.dtype.name]), (8, name)]
    if storage == "raw":
        fields.append((9, array.tobytes()))
    elif storage == "packed" and array.dtype == np.float32:
        fields.append((4, array.tobytes()))
    elif storage == "packed":
        fields.append((7, b"".join(varint(int(n)) for n in array.flat)))
    elif storage == "single":
        fields += [(4, float(n)) for n in array.flat]
    else:
        keys = zip(("location", "offset", "length"), where, strict=False)
        fields += [(13, message((1, key), (2, value))) for key, value in keys]
        fields.append((14, 1))
    return message(*fields)


def attribute(name: str, value: Any) -> bytes:
    single: tuple[tuple[type, int, int], ...] = ((float, 2, 1), (int, 3, 2), (str, 4, 3))
    for kind, field_number, code in single:
        if isinstance(value, kind):
            return message((1, name), (field_number, value), (20, code))
    if isinstance(value, OnnxFile):
        return message((1, name), (6, value.graph()), (20, 5))
    if isinstance(value, np.ndarray):
        return message((1, name), (5, tensor("", value)), (20, 4))
    if all(isinstance(v, str) for v in value):
        return message((1, name), *((9, v) for v in value), (20, 8))
    if all(isinstance(v, int) for v in value):
        return message((1, name), *((8, v) for v in value), (20, 7))
    return message((1, name), *((7, float(v)) for v in value), (20, 6))


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> bytes:
    """Returns a NodeProto; the attributes `name` and `domain` are fields of the node."""
    name, domain = attributes.pop("name", ""), attributes.pop("domain", "")
    return message(
        *((1, i) for i in inputs),
        *((2, o) for o in outputs),
        (3, name),
        (4, kind),
        *((5, attribute(n, v)) for n, v in attributes.items()),
        (7, domain),
    )


def value(name: str, shape: Sequence[int | str], dtype: str = "float32") -> bytes:
    """Returns a ValueInfoProto; an axis is a number, or text for an open one."""
    dims = [(1, message((2 if isinstance(n, str) else 1, n))) for n in shape]
    kind = message((1, TYPES[dtype]), (2, message(*dims)))
    return message((1, name), (2, message((1, kind))))


@dataclass
class OnnxFile:
    """A model that is being written."""

    opset: int = 17
    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    nodes: list[bytes] = field(default_factory=list)
    initializers: list[bytes] = field(default_factory=list)

    def add(self, kind: str, *inputs: str, outputs: Sequence[str] = ("y",), **attrs: Any) -> None:
        self.nodes.append(node(kind, inputs, outputs, **attrs))

    def constants(self, values: Mapping[str, Any], storage: str = "raw") -> None:
        self.initializers += [tensor(name, v, storage) for name, v in values.items()]

    def graph(self) -> bytes:
        """Returns the GraphProto, which may be a branch."""
        return message(
            *((1, n) for n in self.nodes),
            (2, "graph"),
            *((5, t) for t in self.initializers),
            *((11, v) for v in self.inputs),
            *((12, v) for v in self.outputs),
        )

    def data(self) -> bytes:
        domains = {"": self.opset, "x.y": 1, "ai.onnx.ml": 3}
        opsets = [message((1, name), (2, version)) for name, version in domains.items()]
        return message((1, 8), (2, "test"), (7, self.graph()), *((8, o) for o in opsets))

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data())
        return path


def one_node(
    kind: str, x: Array, constants: Mapping[str, Any], opset: int = 17, **attributes: Any
) -> OnnxFile:
    """A model of one node, whose first input is x and whose others are constants."""
    file = OnnxFile(opset)
    file.inputs.append(value("x", ("N", *x.shape[1:]), x.dtype.name))
    file.outputs.append(value("y", ()))
    file.constants(constants)
    file.add(kind, "x", *constants, **attributes)
    return file


def mlp(storage: str = "raw", rng: int = 0) -> OnnxFile:
    """Gemm, Relu, MatMul and Add: 6 → 5 → 3, weights in one kind of storage."""
    draw = np.random.default_rng(rng).standard_normal
    w1, b1, w2, b2 = (draw(s).astype(np.float32) for s in ((5, 6), (5,), (5, 3), (3,)))
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    named = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    if storage == "constant":
        for name, values in named.items():
            file.add("Constant", outputs=[name], value=values)
    else:
        file.constants(named, storage)
    file.add("Gemm", "x", "w1", "b1", outputs=["h"], transB=1, name="first")
    file.add("Relu", "h", outputs=["r"])
    file.add("MatMul", "r", "w2", outputs=["p"])
    file.add("Add", "p", "b2", name="last")
    return file


def classifier(end: str = "softmax", storage: str = "raw") -> OnnxFile:
    """A classifier of 6 features and 3 classes.

    Args:
        end: softmax; or logits, as PyTorch exports them; or added, logits with the bias by an Add.
        storage: raw, or external in w.data for the weights of the first layer.
    """
    draw = np.random.default_rng(3).standard_normal
    w1 = draw((8, 6)).astype(np.float32)
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    file.initializers.append(tensor("w1", w1, storage, ("w.data", "0", str(w1.nbytes))))
    shapes = {"b1": (8,), "w2": (8, 3), "b2": (3,)}
    file.constants({name: draw(shape).astype(np.float32) for name, shape in shapes.items()})
    file.add("Gemm", "x", "w1", "b1", outputs=["h"], transB=1, name="first")
    file.add("Relu", "h", outputs=["r"])
    logits = "z" if end == "softmax" else "y"
    if end == "added":
        file.add("MatMul", "r", "w2", outputs=["p"])
        file.add("Add", "p", "b2", outputs=[logits], name="last")
    else:
        file.add("Gemm", "r", "w2", "b2", outputs=[logits], name="last")
    if end == "softmax":
        file.add("Softmax", "z", axis=1)
    return file


def first_weights() -> Array:
    """The external weights of a classifier."""
    return np.random.default_rng(3).standard_normal((8, 6)).astype(np.float32)
