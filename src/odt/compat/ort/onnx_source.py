"""ONNX models as generate_artifacts and onnxblock take them: paths, protos, models of odt."""

import os
import sys
from typing import Any

import numpy as np

from odt.core.formats.onnx.messages import MODEL
from odt.core.formats.onnx.reader import is_onnx, parse_onnx
from odt.core.formats.onnx.tensors import dtype_of
from odt.core.formats.onnx.writer import Axes
from odt.core.formats.protobuf import Message, MessageReader, Span
from odt.core.formats.reader import read_model
from odt.core.model.model import ONNX
from odt.core.model.model import Model as File
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.models.model import Model, file_of

IN_MEMORY = "model"  # name in messages of a model that has no file


@dataclass(frozen=True, slots=True)
class OnnxSource:
    """An ONNX model.

    Attributes:
        data: its bytes.
        file: the model as parsed.
    """

    data: memoryview
    file: File

    @property
    def opset(self) -> int:
        """Version of ONNX's operators."""
        versions = {e.get("domain", ""): e.get("version", 0) for e in self._message("opset_import")}
        return int(versions.get("", versions.get("ai.onnx", 0)))

    def declared(self) -> dict[str, tuple[np.dtype[Any], Axes]]:
        """Returns dtype and shape of the inputs and outputs; open axes have names."""
        graph = self._message("graph")
        return {
            v["name"]: _declared(v) for v in (*graph.get("input", []), *graph.get("output", []))
        }

    def _message(self, field: str) -> Any:
        message = MessageReader(self.data).read(Span(0, len(self.data)), MODEL)
        return message.get(field, [])


def _declared(value: Message) -> tuple[np.dtype[Any], Axes]:
    kind = value.get("type", {}).get("tensor_type", {})
    dims = kind.get("shape", {}).get("dim", [])
    sizes = (d.get("dim_param") or d.get("dim_value", -1) for d in dims)
    axes = tuple(n if isinstance(n, str) or n >= 0 else f"axis{k}" for k, n in enumerate(sizes))
    return dtype_of(kind.get("elem_type", 1)), axes


def is_proto(model: Any) -> bool:
    """Whether a model is an onnx.ModelProto, or bytes of one."""
    return isinstance(model, bytes | memoryview) or hasattr(model, "SerializeToString")


def onnx_source(model: Any) -> OnnxSource | None:
    """Returns a model as ONNX; None for models of other formats.

    Args:
        model: the path of a file, an onnx.ModelProto or its bytes, or a model of odt.

    Raises:
        ModelError: if it cannot be read.
    """
    if is_proto(model):
        data = memoryview(
            model.SerializeToString() if hasattr(model, "SerializeToString") else model
        )
        if not is_onnx(data):
            raise ModelError(f"{IN_MEMORY}: must be an ONNX model, but got other bytes.")
        return OnnxSource(data, parse_onnx(data, IN_MEMORY))
    if isinstance(model, Model):
        file = file_of(model)
    elif isinstance(model, str | os.PathLike):
        refuse_ort(model)
        file = read_model(model)
    else:
        return None
    return OnnxSource(file.data, file) if file.format == ONNX else None


def refuse_ort(path: str | os.PathLike[str]) -> None:
    """Raises ModelError for the path of a file in ORT's format."""
    if os.fspath(path).lower().endswith(".ort"):
        raise ModelError(
            f"{os.fspath(path)}: must be an .onnx file, but got one in the format ORT, which "
            "onnxruntime made of it. Give the .onnx file."
        )


def proto(data: bytes) -> Any:
    """Returns a model as onnx.ModelProto if onnx is imported, else as its bytes."""
    onnx = sys.modules.get("onnx")
    return data if onnx is None else onnx.load_model_from_string(data)
