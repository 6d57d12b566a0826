"""QuantizedDef, the part of an operator's row about files whose tensors are quantized.

`make pages` copies these facts to kernels/rows/quantized_index.py, which imports no row, because
reading and writing a file needs them without the kernels of its operators.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """Positions of input, weights and bias of a layer, and the axis of its units in the weights.

    The scale of the bias is that of the input times that of the weights.
    """

    x: int
    w: int
    b: int
    axis: int


@dataclass(frozen=True, slots=True)
class QuantizedDef:
    """Facts about an operator on quantized tensors, from TFLite's specification and runtimes.

    An operator with a module in kernels/integer computes the bits of LiteRT. One without computes
    the real numbers that its integers represent, which are rounded afterwards, or moves the
    integers if all its tensors have one quantization.

    Attributes:
        versions: type of the first input that is neither shape nor axis ("INT8", "UINT8", "INT16"
            or "INT4") → the least version of the operator in a file; 1 for types that are left out.
        int8: whether LiteRT computes int8 activations and weights, so that odt writes them.
        int16: the same for int16 activations and int8 weights.
        hybrid: types of integer weights that runtimes read beside real numbers, with one scale for
            each unit.
        layers: layers that it computes; an LSTM has one for each gate.
        needs_scale: whether each of its integer activations must have a scale.
        absent: position of an input that a quantized operator must be without → its description.
        range: smallest and largest value of the output, if its quantization is prescribed.
        same: tensors that have one quantization in files that odt writes: "output", the outputs and
            the first input that is an activation; "all", all inputs and outputs.
        values: what outputs are: "moved", values of inputs, which kernels/ops moves for integers
            too; "kept", values of inputs or 0; "within", numbers in the range of the inputs;
            "computed", others.
        checks_scales: whether LiteRT refuses other quantizations than `range` prescribes, or
            several where there should be one. Otherwise it takes integers as they are.
        refused: whether LiteRT has no integer form of it.
        implies_activation: whether old converters dropped its fused RELU or RELU6 if the range of
            the output implies it.
        bytes_only: whether its row in kernels/integer takes types of 8 bits only.
        one_scale: whether that row takes tensors of one quantization only.
        pads_input: whether that row takes the number of zeros on each side of the images, as a PAD
            before it adds them.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    int8: bool = False
    int16: bool = False
    hybrid: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    needs_scale: bool = False
    absent: Mapping[int, str] = field(default_factory=dict)
    range: tuple[float, float] | None = None
    same: Literal["", "output", "all"] = ""
    values: Literal["moved", "kept", "within", "computed"] = "computed"
    checks_scales: bool = False
    refused: bool = False
    implies_activation: bool = False
    bytes_only: bool = False
    one_scale: bool = False
    pads_input: bool = False
