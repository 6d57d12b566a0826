"""One small classifier in every form of file that odt trains.

The network is a convolution with RELU, a mean over height and width, a layer with RELU and a last
layer with SOFTMAX: inputs (1, 6, 6, 2), 3 classes. Files of float activations have the same
weights, up to how they are stored.
"""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.export.record_metadata import LABELS, encode_metadata, labels_entry
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.flatbuffer.tflite_metadata import NAME
from odt.core.model.packed_integers import pack_integers
from odt.kernels.rows.opdef import Array
from support.integer_files import QuantizedBuilder
from support.sparse_files import add_sparse, sparse_parameters
from support.subgraphs import Subgraphs

RELU = 1
IMAGE, CHANNELS, UNITS, CLASSES = (1, 6, 6, 2), 4, 5, 3
NAMES = ("cat", "dog", "cow")
STRIDES: dict[str, Any] = {"stride_w": 1, "stride_h": 1}


class Form(QuantizedBuilder, Subgraphs):
    """Builds the network of float activations; `stored` decides how weights are stored.

    Attributes:
        outside: whether the buffers are behind the flatbuffer, as in files beyond 2 GiB.
    """

    outside = False

    def __init__(self, file_format: str = "tflite") -> None:
        super().__init__(3, file_format)
        self.values: dict[str, Array] = {}
        rng = self.rng
        shapes = {
            "conv": (CHANNELS, 3, 3, 2),
            "hidden": (UNITS, CHANNELS),
            "last": (CLASSES, UNITS),
        }
        for name, shape in shapes.items():
            w = rng.normal(0, 0.5, shape)
            self.values[name] = (w * (abs(w) > 0.2)).astype(np.float16).astype(np.float32)
            self.values[f"{name}/bias"] = rng.normal(0, 0.1, shape[0]).astype(np.float16)

    def stored(self, name: str) -> int:
        """Adds a weight; returns the tensor of floats that operators read, or of integers."""
        return self.add_constant(self.values[name], name)

    def bias_of(self, name: str) -> int:
        return self.add_constant(self.values[f"{name}/bias"].astype(np.float32), f"{name}/bias")

    def features(self, x: int) -> int:
        operands = (x, self.stored("conv"), self.bias_of("conv"))
        shape = (1, 4, 4, CHANNELS)
        y = self.add_operator(
            "CONV_2D", operands, shape, padding=1, fused_activation_function=RELU, **STRIDES
        )
        axes = self.add_constant(np.array([1, 2], np.int32), "axes")
        return self.add_operator("MEAN", (y, axes), (1, CHANNELS))

    def layer(self, x: int, name: str, **options: Any) -> int:
        operands = (x, self.stored(name), self.bias_of(name))
        units = len(self.values[name])
        return self.add_operator("FULLY_CONNECTED", operands, (1, units), **options)

    def classes_of(self, features: int) -> int:
        y = self.layer(features, "hidden", fused_activation_function=RELU)
        y = self.layer(y, "last")
        return self.add_operator("SOFTMAX", (y,), (1, CLASSES), beta=1.0)

    def network(self) -> int:
        return self.classes_of(self.features(self.add_input(IMAGE, name="image")))


class Half(Form):
    """Weights and biases of float16 behind DEQUANTIZE."""

    def stored(self, name: str) -> int:
        i = self.add_constant(self.values[name].astype(np.float16), name)
        return self.add_operator("DEQUANTIZE", (i,), self.values[name].shape)

    def bias_of(self, name: str) -> int:
        return self.stored(f"{name}/bias")


class Int8(Form):
    """Weights of int8, which hybrid kernels read.

    Attributes:
        behind: whether they are behind DEQUANTIZE instead.
        channels: whether each unit has a scale.
    """

    behind, channels = False, True

    def stored(self, name: str) -> int:
        values = self.values[name]
        axis = tuple(range(1, values.ndim)) if self.channels else None
        scale = abs(values).max(axis=axis, keepdims=True) / 127
        i = self.add_constant(np.rint(values / scale).astype(np.int8), name)
        self.quantize(i, [*map(float, scale.ravel())], [0] * scale.size)
        return self.add_operator("DEQUANTIZE", (i,), values.shape) if self.behind else i


class Int8Dequantized(Int8):
    behind = True


class Int8PerTensor(Int8):
    channels = False


class Int4(Form):
    """Weights of int4 with a scale for each unit, which hybrid kernels read."""

    def stored(self, name: str) -> int:
        values = self.values[name]
        scale = abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True) / 7
        integers = np.rint(values / scale).astype(np.int8)
        i = self.add_tensor(
            values.shape, "int8", name, self.add_buffer(pack_integers(integers, 4).tobytes())
        )
        self.graph.tensors[i].type = code_of("TensorType", "INT4")
        self.quantize(i, [*map(float, scale.ravel())], [0] * scale.size)
        return i


class Sparse(Form):
    """Sparse weights of a dtype behind DENSIFY, and behind DEQUANTIZE for float16."""

    dtype = "float32"

    def stored(self, name: str) -> int:
        values = self.values[name]
        if values.ndim != 2:
            return super().stored(name)
        entry, kept = sparse_parameters(values, (0, 1), sparse=(1,))
        scale = abs(values).max() / 127
        if self.dtype == "int8":
            kept = [round(v / scale) for v in kept]
        i = add_sparse(self, entry, np.array(kept, self.dtype), values.shape)
        y = self.add_operator("DENSIFY", (i,), values.shape, dtype=self.dtype)
        if self.dtype == "float16":
            y = self.add_operator("DEQUANTIZE", (y,), values.shape)
        if self.dtype == "int8":
            for k in (i, y):
                self.quantize(k, [float(scale)], [0])
        return y


class SparseHalf(Sparse):
    dtype = "float16"


class SparseInt8(Sparse):
    dtype = "int8"


class Integer(Form):
    """Weights and activations of integers.

    Attributes:
        kind: dtype of the activations.
        ends: whether inputs and outputs are integers too.
    """

    kind, weight_dtype, ends = "int8", "int8", True

    def zero(self) -> int:
        """The zero point of activations that are never negative."""
        return 0 if self.kind == "int16" else int(np.iinfo(self.kind).min)

    def step(self, largest: float) -> float:  # type: ignore[override]
        return largest / (32767 if self.kind == "int16" else 255)

    def stored(self, name: str) -> int:
        values = self.values[name]
        if self.weight_dtype == "uint8":
            scale = np.array([abs(values).max() / 127])
            i = self.add_constant((np.rint(values / scale) + 128).astype(np.uint8), name)
        else:
            scale = abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True) / 127
            i = self.add_constant(np.rint(values / scale).astype(np.int8), name)
        zero = 128 if self.weight_dtype == "uint8" else 0
        self.quantize(i, [*map(float, scale.ravel())], [zero] * scale.size)
        return i

    def scaled(self, name: str, x: int, w: int) -> int:
        (s_x,), s_w = (self.graph.tensors[i].quantization.scale for i in (x, w))
        scale = s_x * np.array(s_w)
        wide = np.int64 if self.kind == "int16" else np.int32
        values = np.rint(self.values[f"{name}/bias"].astype(float) / scale).astype(wide)
        i = self.add_constant(values, f"{name}/bias")
        self.quantize(i, [*map(float, scale)], [0] * scale.size)
        return i

    def features(self, x: int) -> int:
        w = self.stored("conv")
        operands = (x, w, self.scaled("conv", x, w))
        shape, scale, zero = (1, 4, 4, CHANNELS), self.step(6.0), self.zero()
        more = {"padding": 1, "fused_activation_function": RELU, **STRIDES}
        y = self.operator("CONV_2D", operands, shape, scale, zero, self.kind, **more)
        axes = self.add_constant(np.array([1, 2], np.int32), "axes")
        return self.operator("MEAN", (y, axes), (1, CHANNELS), scale, zero, self.kind)

    def layer(self, x: int, name: str, **options: Any) -> int:
        w = self.stored(name)
        shape, operands = (1, len(self.values[name])), (x, w, self.scaled(name, x, w))
        signed = not options
        scale = self.step(6.0) * (2 if signed and self.kind != "int16" else 1)
        zero = self.zero() + (128 if signed and self.kind != "int16" else 0)
        op = "FULLY_CONNECTED"
        return self.operator(op, operands, shape, scale, zero, self.kind, **options)

    def classes_of(self, features: int) -> int:
        y = self.layer(features, "hidden", fused_activation_function=RELU)
        y = self.layer(y, "last")
        scale = 1 / (32768 if self.kind == "int16" else 256)
        y = self.operator("SOFTMAX", (y,), (1, CLASSES), scale, self.zero(), self.kind, beta=1.0)
        return y if self.ends else self.add_operator("DEQUANTIZE", (y,), (1, CLASSES))

    def network(self) -> int:
        x = self.add_input(IMAGE, self.kind if self.ends else "float32", name="image")
        scale, zero = (1 / 8192, 0) if self.kind == "int16" else (1 / 32, self.zero() + 128)
        if self.ends:
            self.quantize(x, [scale], [zero])
        else:
            x = self.operator("QUANTIZE", (x,), IMAGE, scale, zero, self.kind)
        return self.classes_of(self.features(x))


class IntegerFloatEnds(Integer):
    ends = False


class Int16x8(Integer):
    kind = "int16"


class UInt8(Integer):
    kind = weight_dtype = "uint8"


class Int8Int4(Integer):
    """Activations of int8 and weights of int4."""

    def stored(self, name: str) -> int:
        return Int4.stored(self, name)  # type: ignore[arg-type]


class SparseInteger(Integer):
    """Activations of int8 and sparse weights of int8 behind DENSIFY."""

    def stored(self, name: str) -> int:
        if self.values[name].ndim != 2:
            return super().stored(name)
        values = self.values[name]
        entry, kept = sparse_parameters(values, (0, 1), sparse=(1,))
        scale = abs(values).max() / 127
        integers = np.array([round(v / scale) for v in kept], np.int8)
        i = add_sparse(self, entry, integers, values.shape)
        y = self.add_operator("DENSIFY", (i,), values.shape, dtype="int8")
        for k in (i, y):
            self.quantize(k, [float(scale)], [0])
        return y


class TwoSignatures(Form):
    """`classify` and `embed`, whose subgraphs read the weights of the convolution.

    Attributes:
        shared: whether both subgraphs read one buffer for each weight, or a copy each.
    """

    shared = True

    def network(self) -> int:
        x = self.add_input(IMAGE, name="image")
        y = self.classes_of(self.features(x))
        self.add_signature("classify", {"image": x}, {"scores": y})
        buffers = {t.name: t.buffer for t in self.graph.tensors}
        self.subgraph(lambda: (self.embedding(buffers),))
        return y

    def embedding(self, buffers: dict[str, int]) -> int:
        x = self.add_input(IMAGE, name="image")
        z = self.features(x)
        for tensor in self.graph.tensors:
            if tensor.buffer and self.shared:
                tensor.buffer = buffers[tensor.name]
        self.add_signature("embed", {"image": x}, {"features": z})
        self.model.signature_defs[-1].subgraph_index = 1
        return z


class TwoSignaturesHalf(TwoSignatures, Half):
    pass


class TwoSignaturesInt8(TwoSignatures, Int8):
    pass


class TwoCopies(TwoSignatures):
    shared = False


class Loop(Form):
    """A layer that a WHILE applies three times."""

    def features(self, x: int) -> int:
        return self.loop(super().features(x), 3)


class Branches(Form):
    """An IF between two layers, by the sign of a feature."""

    def features(self, x: int) -> int:
        y = super().features(x)
        zero, axes = self.add_constant(np.zeros((), np.float32)), self.add_constant([0, 1])
        total = self.add_operator("SUM", (y, axes), ())
        condition = self.add_operator("GREATER", (total, zero), (), dtype="bool")
        return self.choice(condition, y)


class Composite(Form):
    """A layer in a STABLEHLO_COMPOSITE."""

    def features(self, x: int) -> int:
        return self.composite(super().features(x), self.subgraph(self.step))


class Variables(Form):
    """The weights are variables that CALL_ONCE initializes and no operator assigns."""

    def variable(self, name: str) -> int:
        options: dict[str, Any] = {"container": "", "shared_name": name}
        handle = self.add_operator("VAR_HANDLE", (), (), dtype="int32", **options)
        self.graph.tensors[handle].type = code_of("TensorType", "RESOURCE")
        return handle

    def initial(self, name: str) -> int:
        return self.add_constant(self.values[name], name)

    def stored(self, name: str) -> int:
        shape = self.values[name].shape
        return self.add_operator("READ_VARIABLE", (self.variable(name),), shape)

    def network(self) -> int:
        def assigned() -> tuple[int, ...]:
            for name in ("conv", "hidden", "last"):
                handle = self.variable(name)
                self.add_operator("ASSIGN_VARIABLE", (handle, self.initial(name)))
            return ()

        self.add_operator("CALL_ONCE", (), init_subgraph_index=self.subgraph(assigned))
        return super().network()


class Pruned(Variables):
    """Pruning wrappers: in each run each weight is multiplied by a mask and assigned."""

    def mask(self, name: str) -> int:
        return self.add_constant((self.values[name] != 0).astype(np.float32), f"{name}/mask")

    def stored(self, name: str) -> int:
        shape = self.values[name].shape
        handle = self.variable(name)
        before = self.add_operator("READ_VARIABLE", (handle,), shape)
        masked = self.add_operator("MUL", (before, self.mask(name)), shape)
        self.add_operator("ASSIGN_VARIABLE", (handle, masked))
        return self.add_operator("READ_VARIABLE", (handle,), shape)


class PrunedHalf(Pruned):
    """The same with initial values and masks of float16."""

    def initial(self, name: str) -> int:
        return Half.stored(self, name)  # type: ignore[arg-type]

    def mask(self, name: str) -> int:
        a = (self.values[name] != 0).astype(np.float16)
        return self.add_operator("DEQUANTIZE", (self.add_constant(a, f"{name}/mask"),), a.shape)


class Outside(Form):
    outside = True


class HalfOutside(Outside, Half):
    pass


class IntegerOutside(Outside, Integer):
    pass


class Circle(Form):
    def __init__(self) -> None:
        super().__init__("circle")


class CircleHalf(Circle, Half):
    pass


class CircleInteger(Circle, IntegerFloatEnds):
    pass


def write_form(make: Callable[[], Form], path: Path) -> None:
    """Writes a file with TFLite Model Metadata and the zip archive of the label file they name."""
    form = make()
    y = form.network()
    outputs = [{"name": "scores", "associated_files": [labels_entry()]}]
    graphs = [{"input_tensor_metadata": [{"name": "image"}], "output_tensor_metadata": outputs}]
    form.add_metadata(NAME, encode_metadata({"name": "animals", "subgraph_metadata": graphs}))
    packed = io.BytesIO(_with_buffers_outside(form, y) if form.outside else form.build(y))
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(LABELS), "\n".join(NAMES))
    path.write_bytes(packed.getvalue())


def _with_buffers_outside(form: Form, y: int) -> bytes:
    contents = [b"" if b.data is None else b.data.tobytes() for b in form.model.buffers]
    for buffer, data in zip(form.model.buffers, contents, strict=True):
        if data:
            buffer.data, buffer.offset, buffer.size = None, 2, len(data)
    packed = bytearray(form.build(y))
    packed += bytes(-len(packed) % 16)
    end = len(packed)
    for buffer, data in zip(form.model.buffers, contents, strict=True):
        if data:
            buffer.offset = end
            end += len(data) + -len(data) % 16
    rest = b"".join(data + bytes(-len(data) % 16) for data in contents)
    packed = bytearray(form.build(y))
    return bytes(packed + bytes(-len(packed) % 16)) + rest


FORMS: dict[str, Callable[[], Form]] = {
    "float32": Form,
    "float16": Half,
    "int8 weights": Int8,
    "int8 weights with one scale": Int8PerTensor,
    "int8 behind DEQUANTIZE": Int8Dequantized,
    "int4 weights": Int4,
    "sparse": Sparse,
    "sparse float16": SparseHalf,
    "sparse int8 weights": SparseInt8,
    "int8": Integer,
    "int8 between floats": IntegerFloatEnds,
    "int16x8": Int16x8,
    "uint8": UInt8,
    "int8 with int4 weights": Int8Int4,
    "sparse int8": SparseInteger,
    "two signatures": TwoSignatures,
    "two signatures of float16": TwoSignaturesHalf,
    "two signatures of int8 weights": TwoSignaturesInt8,
    "two signatures with copies": TwoCopies,
    "loop": Loop,
    "branches": Branches,
    "composite": Composite,
    "variables": Variables,
    "pruning wrappers": Pruned,
    "pruning wrappers of float16": PrunedHalf,
    "buffers outside": Outside,
    "float16 buffers outside": HalfOutside,
    "int8 buffers outside": IntegerOutside,
    "circle": Circle,
    "circle of float16": CircleHalf,
    "circle of int8": CircleInteger,
}
