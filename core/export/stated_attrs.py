"""Options and static inputs in a file that state an operator's attributes.

Passes of lowering move axes (core/lowering/passes/push_transposes.py): they change the attributes
of a node, and leave its options and inputs as they were in the file.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.model.graph import Node
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.ops.strided_slice import MASKS
from odt.kernels.rows.opdef import Array

REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")


@dataclass(frozen=True, slots=True)
class AttrsForm:
    """Attributes as a file states them.

    Attributes:
        options: options of the operator.
        statics: values of static inputs, by name.
    """

    options: Mapping[str, Any]
    statics: Mapping[str, Any]


def _strided_slice(a: Any) -> AttrsForm:
    masks = {f"{name}_mask": getattr(a, f"{name}_mask") for name in MASKS}
    return AttrsForm(masks, {"begin": a.begin, "end": a.end, "strides": a.strides})


def _convolution(a: Any) -> AttrsForm:
    strides = {"stride_h": a.stride[0], "stride_w": a.stride[1]}
    factors = {"dilation_h_factor": a.dilation[0], "dilation_w_factor": a.dilation[1]}
    return AttrsForm({"padding": a.padding, **strides, **factors}, {})


FORMS: Mapping[str, Callable[[Any], AttrsForm]] = {
    "BROADCAST_TO": lambda a: AttrsForm({}, {"shape": a}),
    "CONV_2D": _convolution,
    "CONCATENATION": lambda a: AttrsForm({"axis": a.axis}, {}),
    "CUMSUM": lambda a: AttrsForm({}, {"axis": a.axis}),
    "MIRROR_PAD": lambda a: AttrsForm({}, {"paddings": a.pad.pads}),
    "PAD": lambda a: AttrsForm({}, {"paddings": a.pads}),
    "PADV2": lambda a: AttrsForm({}, {"paddings": a.pads}),
    "SLICE": lambda a: AttrsForm({}, {"begin": a.begin, "size": a.size}),
    "SPLIT": lambda a: AttrsForm({}, {"axis": a.axis}),
    "SPLIT_V": lambda a: AttrsForm({}, {"axis": a.axis}),
    "STRIDED_SLICE": _strided_slice,
    "TILE": lambda a: AttrsForm({}, {"multiples": a}),
    **dict.fromkeys(REDUCTIONS, lambda a: AttrsForm({"keep_dims": a.keep_dims}, {"axes": a.axes})),
}


def form_of_attrs(
    node: Node, options: Mapping[str, Any], statics: Mapping[str, Array]
) -> AttrsForm | None:
    """Returns options and static inputs that state the attributes of a node.

    Args:
        node: a node with attributes.
        options: its options, with the schema's defaults.
        statics: the values of its static inputs in the file, by name; those that are known.

    Returns:
        Options and inputs that differ from the node's; None if no form is known.
    """
    if _states(node, options, statics):
        return AttrsForm({}, {})
    form = FORMS[node.op](node.attrs) if node.op in FORMS else AttrsForm({}, {})
    values = {name: np.asarray(value, np.int32) for name, value in form.statics.items()}
    if _states(node, {**options, **form.options}, {**statics, **values}):
        return AttrsForm(form.options, values)
    return None


def _states(node: Node, options: Mapping[str, Any], statics: Mapping[str, Array]) -> bool:
    """Whether options and static inputs state the attributes of a node."""
    row = row_of(node.op)
    try:
        attrs = row.attrs(options, statics)
    except (KeyError, ShapeError):
        return False
    return bool(attrs == node.attrs)
