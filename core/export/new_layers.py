"""The tables of a model whose last layers are replaced: operators that stay, and new layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.export.partial_tables import PartialTables
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.recipe.fresh_head import HEAD
from odt.kernels.rows.opdef import Array

FLOAT32 = np.dtype(np.float32)


class NewLayers(PartialTables):
    """The tables of the kept operators and of new layers."""

    def new_signatures(self, output: int) -> list[dict[str, Any]]:
        """Signatures of the subgraph, with the inputs that stay and the new output.

        The output has the name of the first old one.
        """
        signatures = []
        for signature in self.signatures:
            if not signature.get("outputs"):
                continue
            name = signature["outputs"][0].get("name", b"output")
            tensors = [(t, t.get("tensor_index", 0)) for t in signature.get("inputs", ())]
            number = self.number
            inputs = [{**t, "tensor_index": number[i]} for t, i in tensors if i in number]
            outputs = [{"name": name, "tensor_index": output}]
            signatures.append({**signature, "inputs": inputs, "outputs": outputs})
        return signatures

    def add(
        self,
        x: int,
        shape: Sequence[int],
        rng: np.random.Generator,
        hidden: Sequence[int],
        units: int,
        activation: str,
    ) -> int:
        """Adds the new layers after x; returns their output.

        Args:
            x: the features.
            shape: their shape.
            rng: random generator of the weights.
            hidden: units of the layers before the last.
            units: units of the last layer.
            activation: operator after it; empty for none.
        """
        batch, *between, width = shape
        if any(n != 1 for n in between):
            axes = self._constant(np.arange(1, 1 + len(between), dtype=np.int32), "axes")
            x = self._operator(
                "MEAN", [x, axes], (batch, width), "features", ("ReducerOptions", {})
            )
        for k, count in enumerate(hidden, start=1):
            x = self._layer(x, (batch, width, count), rng, f"hidden{k}/", f"hidden{k}", "RELU")
            width = count
        x = self._layer(x, (batch, width, units), rng, "", "logits" if activation else "values")
        if not activation:
            return x
        options = ("SoftmaxOptions", {"beta": 1.0}) if activation == "SOFTMAX" else None
        return self._operator(activation, [x], (batch, units), "probabilities", options)

    def _layer(
        self,
        x: int,
        sizes: tuple[int, int, int],
        rng: np.random.Generator,
        prefix: str,
        name: str,
        activation: str = "NONE",
    ) -> int:
        """Adds a FULLY_CONNECTED.

        Args:
            x: input of the layer.
            sizes: batch size, number of features, units.
            rng: random generator of the weights.
            prefix: prefix of the names of weights and bias.
            name: name of the output.
            activation: fused activation.
        """
        batch, width, units = sizes
        values = rng.normal(0, np.sqrt(2 / width), (units, width)).astype(FLOAT32)
        w, b = self._weights(x, values, prefix)
        code = code_of("ActivationFunctionType", activation)
        options = ("FullyConnectedOptions", {"fused_activation_function": code})
        return self._operator("FULLY_CONNECTED", [x, w, b], (batch, units), name, options)

    def _weights(self, x: int, values: Array, prefix: str) -> tuple[int, int]:
        """Adds weights, and a bias of zeros, of a layer that reads x."""
        bias = np.zeros(len(values), FLOAT32)
        return self._constant(values, prefix + "weights"), self._constant(bias, prefix + "bias")

    def _constant(self, values: Array, name: str) -> int:
        kind = values.dtype.name.upper()
        return self._tensor(values.shape, name, self.add_buffer(values.tobytes()), kind)

    def _tensor(
        self, shape: Sequence[int], name: str, buffer: int = 0, kind: str = "FLOAT32"
    ) -> int:
        """Adds a tensor; returns its number."""
        tensor = {
            "shape": shape,
            "name": f"{HEAD}{name}",
            "buffer": buffer,
            "type": code_of("TensorType", kind),
            "has_rank": True,
        }
        self.graph["tensors"].append(tensor)
        return len(self.graph["tensors"]) - 1

    def _operator(
        self,
        op: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        name: str,
        options: tuple[str, dict[str, Any]] | None = None,
    ) -> int:
        """Adds an operator; its output has a dynamic batch axis if its first input has one."""
        code = code_of("BuiltinOperator", op)
        self.model["operator_codes"].append({"builtin_code": code, "deprecated_builtin_code": code})
        signature = self.graph["tensors"][inputs[0]].get("shape_signature", ())
        y = self._tensor(shape, name)
        if len(signature) and signature[0] == -1:
            self.graph["tensors"][y]["shape_signature"] = [-1, *shape[1:]]
        operator = {
            "opcode_index": len(self.model["operator_codes"]) - 1,
            "inputs": inputs,
            "outputs": [y],
        }
        if options:
            operator["builtin_options_type"] = code_of("BuiltinOptions", options[0])
            operator["builtin_options"] = options[1]
        self.graph["operators"].append(operator)
        return y
