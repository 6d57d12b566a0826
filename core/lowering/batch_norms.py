"""Finds batch normalization in the form of converters: MUL and ADD with a constant per channel."""

from odt.core.model.graph import LoweredGraph, Node

PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL")
SCALES = ("MUL", "DIV")
SHIFTS = ("ADD", "SUB")


def norm_constants(lowered: LoweredGraph) -> set[int]:
    """Returns constants of batch normalizations after a convolution or a matrix product.

    A batch normalization is a MUL or DIV by one value per channel, with an ADD or SUB of one value
    per channel before or after it. An ADD alone is a bias.
    """
    channels: dict[int, int] = {}  # output channels, by tensor between a product and its norm
    behind: dict[int, tuple[int, ...]] = {}  # constants between the product and the tensor
    scaled: set[int] = set()
    constants: set[int] = set()
    for node in lowered.nodes:
        y = node.outputs[0]
        if node.op in PRODUCTS:
            channels[y] = lowered.tensors[y].spec.shape[-1]
            behind[y] = ()
            continue
        x = next((i for i in node.inputs if i in channels), None)
        if x is None:
            continue
        channels_of_y, constants_of_y = channels[x], behind[x]
        if node.op != "TRANSPOSE":
            constant = _channel_constant(lowered, node, channels_of_y)
            if constant is None:
                continue
            constants_of_y = (*constants_of_y, constant)
        channels[y], behind[y] = channels_of_y, constants_of_y
        if node.op in SCALES or x in scaled:
            scaled.add(y)
            constants.update(behind[y])
    return constants


def _channel_constant(lowered: LoweredGraph, node: Node, channels: int) -> int | None:
    """Returns the constant by which a node only scales or only shifts each channel."""
    if node.op not in (*SCALES, *SHIFTS):
        return None
    # The quotient of a constant and the channels is no scaling.
    for i in node.inputs[1:] if node.op == "DIV" else node.inputs:
        tensor = lowered.tensors[i]
        if tensor.data is not None and tensor.spec.dtype.kind == "f":
            one_axis = tensor.spec.size == max(tensor.spec.shape, default=1)
            return i if one_axis and tensor.spec.size == channels else None
    return None
