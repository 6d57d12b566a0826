"""How operators that compute are drawn: their options and operands, where a tensor x is there.

An entry adds one node, or the few that belong together.
"""

import numpy as np

from support.graph_fuzz.growing import Draw, Growth, Options, UnfitError, entries

COMPUTING: dict[str, Draw] = {}
draws = entries(COMPUTING)
INT32, FLOAT64 = np.dtype(np.int32), np.dtype(np.float64)


@draws(
    *("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH", "LOGISTIC", "ELU", "HARD_SWISH"),
    *("ABS", "NEG", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "EXP", "ZEROS_LIKE"),
)
def plain(g: Growth, op: str, x: int) -> None:
    g.add(op, (x,))


@draws("GELU")
def gelu(g: Growth, op: str, x: int) -> None:
    g.add(op, (x,), approximate=g.chance(0.5))


@draws("LEAKY_RELU")
def leaky_relu(g: Growth, op: str, x: int) -> None:
    g.add(op, (x,), alpha=0.25)


@draws("SQRT", "RSQRT", "LOG")
def of_positive(g: Growth, op: str, x: int) -> None:
    g.add(op, (g.positive(x),))


@draws("POW")
def power(g: Growth, op: str, x: int) -> None:
    base = g.positive(x)
    g.add(op, (base, g.stretched(base)))


@draws("ADD", "SUB", "MUL")
def pair(g: Growth, op: str, x: int) -> None:
    operands = [x, g.other(x)]
    g.add(op, operands[:: g.choice((1, -1))], g.activation())


@draws("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_MOD", "FLOOR_DIV")
def pair_without_activation(g: Growth, op: str, x: int) -> None:
    y = g.positive(g.other(x)) if op.startswith("FLOOR") else g.other(x)
    g.add(op, (x, y) if op.startswith("FLOOR") or g.chance(0.5) else (y, x))


@draws("DIV")
def quotient(g: Growth, op: str, x: int) -> None:
    g.add(op, (x, g.positive(g.other(x))), g.activation())


@draws("PRELU")
def prelu(g: Growth, op: str, x: int) -> None:
    shape = [n if g.chance(0.7) else 1 for n in g.shape(x)[1:]]
    g.add(op, (x, g.operand(*shape)))


@draws("ADD_N")
def add_n(g: Growth, op: str, x: int) -> None:
    g.add(op, [x, *(g.alike(x, -1) for _ in range(g.between(1, 2)))])


@draws("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL")
def choose(g: Growth, op: str, x: int) -> None:
    c = g.add(op, (x, g.stretched(x)))
    if g.shape(c) != g.shape(x):
        raise UnfitError
    if g.chance(0.4):
        d = g.add("LESS", (x, g.constant(np.array(0.1))))
        c = g.add("LOGICAL_NOT", (g.add(g.choice(("LOGICAL_AND", "LOGICAL_OR")), (c, d)),))
    if g.chance(0.3):
        g.add("SELECT", (c, x, g.alike(x, -1)))
    else:
        g.add("SELECT_V2", (c, *(x, g.other(x))[:: g.choice((1, -1))]))


@draws("CAST")
def cast(g: Growth, op: str, x: int) -> None:
    whole = g.add(op, (x,), in_data_type=0, out_data_type=2, output_types=(INT32,))
    g.add(op, (whole,), in_data_type=2, out_data_type=0, output_types=(FLOAT64,))


# ---- products


@draws("FULLY_CONNECTED")
def fully_connected(g: Growth, op: str, x: int) -> None:
    *lead, width = g.shape(x) or g.choice(())
    keep = g.first == 0 and g.chance(0.7) if len(lead) == 1 else len(lead) > 1
    units = g.between(1, 6)
    inputs = [x, g.operand(units, width)]
    if g.chance(0.7):
        inputs.append(g.operand(units))
    g.add(op, inputs, g.activation(), keep_num_dims=keep)


def windows(g: Growth) -> Options:
    """Padding and strides."""
    return {"padding": g.between(0, 1), "stride_h": g.between(1, 2), "stride_w": g.between(1, 2)}


@draws("CONV_2D", "DEPTHWISE_CONV_2D")
def convolution(g: Growth, op: str, x: int) -> None:
    _, height, width, depth = g.image(x)
    kh, kw = g.between(1, min(3, height)), g.between(1, min(3, width))
    units = g.between(1, 5) if op == "CONV_2D" else depth * g.between(1, 2)
    shape = (units, kh, kw, depth) if op == "CONV_2D" else (1, kh, kw, units)
    w = g.operand(*shape, scale=1 / np.sqrt(kh * kw * (depth if op == "CONV_2D" else 1)))
    inputs = [x, w, *([g.operand(units)] if g.chance(0.7) else [])]
    options = windows(g)
    if g.chance(0.3) and options["padding"] == 0:
        options |= {"dilation_h_factor": 2, "dilation_w_factor": g.between(1, 2)}
        options |= {"stride_h": 1, "stride_w": 1}
    if op != "CONV_2D":
        options["depth_multiplier"] = units // depth
    g.add(op, inputs, g.activation(), **options)


@draws("TRANSPOSE_CONV")
def transposed_convolution(g: Growth, op: str, x: int) -> None:
    n, height, width, depth = g.image(x)
    units, kh, kw, step = g.between(1, 3), g.between(1, 3), g.between(1, 3), g.between(1, 2)
    same = g.chance(0.5)
    size = [s * step if same else (s - 1) * step + k for s, k in ((height, kh), (width, kw))]
    inputs = [g.of_batch([n, *size, units]), g.operand(units, kh, kw, depth, scale=0.4), x]
    if g.chance(0.5):
        inputs.append(g.operand(units))
    g.add(op, inputs, padding=0 if same else 1, stride_h=step, stride_w=step)


@draws("BATCH_MATMUL")
def batch_matmul(g: Growth, op: str, x: int) -> None:
    shape = g.shape(x)
    if len(shape) < 3:
        raise UnfitError
    if g.chance(0.4):  # attention: x times itself
        g.add(op, (x, x), adj_x=False, adj_y=True)
        return
    turn = g.chance(0.5)
    rest = (g.between(1, 4), shape[-1]) if turn else (shape[-1], g.between(1, 4))
    lead = [n if k and g.chance(0.5) else 1 for k, n in enumerate(shape[:-2])]
    g.add(op, (x, g.operand(*lead, *rest)), adj_x=False, adj_y=turn)


# ---- windows and images


@draws("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def pool(g: Growth, op: str, x: int) -> None:
    _, height, width, _ = g.image(x)
    size = g.between(1, min(3, height)), g.between(1, min(3, width))
    y = g.positive(x) if op == "L2_POOL_2D" else x
    options: Options = {"filter_height": size[0], "filter_width": size[1], **windows(g)}
    g.add(op, (y,), g.activation(), **options)


@draws("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(g: Growth, op: str, x: int) -> None:
    g.image(x)
    how = g.choice(("", "align_corners", "half_pixel_centers"))
    size = g.constant([g.between(1, 6), g.between(1, 6)])
    options: Options = {how: True} if how else {}
    g.add(op, (x, size), **options)


@draws("SPACE_TO_DEPTH")
def space_to_depth(g: Growth, op: str, x: int) -> None:
    _, height, width, _ = g.image(x)
    g.add(op, (x,), block_size=2 if height % 2 == width % 2 == 0 else 1)


@draws("DEPTH_TO_SPACE")
def depth_to_space(g: Growth, op: str, x: int) -> None:
    if g.image(x)[3] % 4:
        raise UnfitError
    g.add(op, (x,), block_size=2)


@draws("SPACE_TO_BATCH_ND")
def through_batches(g: Growth, op: str, x: int) -> None:
    """Blocks as images of a batch, a product, and back, as dilation is written."""
    _, height, width, depth = g.image(x)
    if g.first or height % 2 or width % 2:
        raise UnfitError
    block, none = g.constant([2, 2]), g.constant([[0, 0], [0, 0]])
    y = g.add(op, (x, block, none))
    w = g.operand(depth, 2, 2, depth, scale=0.4)
    y = g.add("CONV_2D", (y, w), padding=0, stride_h=1, stride_w=1)
    g.add("BATCH_TO_SPACE_ND", (y, block, none))


# ---- over axes


@draws("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
def reduction(g: Growth, op: str, x: int) -> None:
    axes = [g.signed(k, g.values[x].ndim) for k in g.axes(x)]
    g.add(op, (x, g.constant(axes)), keep_dims=g.chance(0.5))


@draws("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
def over_the_last(g: Growth, op: str, x: int) -> None:
    if g.values[x].ndim < 2:
        raise UnfitError
    options: Options = {"beta": g.choice((1.0, 0.5))} if op == "SOFTMAX" else {}
    g.add(op, (x,), **options)


@draws("RMS_NORM")
def rms_norm(g: Growth, op: str, x: int) -> None:
    if g.values[x].ndim < 2:
        raise UnfitError
    g.add(op, (x, g.operand(g.shape(x)[-1])), epsilon=0.01)


@draws("INSTANCE_NORM")
def instance_norm(g: Growth, op: str, x: int) -> None:
    depth = g.image(x)[3]
    g.add(op, (x, g.operand(depth), g.operand(depth)), epsilon=0.05)


@draws("ROPE")
def rope(g: Growth, op: str, x: int) -> None:
    _, _, rows, depth = g.image(x)
    if depth % 2:
        raise UnfitError
    angles = g.rng.normal(size=(1, 1, rows, depth))
    tables = g.constant(np.sin(angles)), g.constant(np.cos(angles))
    g.fixed.update(tables)
    g.add(op, (x, *tables), mode=0)


@draws("ARG_MAX", "ARG_MIN")
def place(g: Growth, op: str, x: int) -> None:
    axis = g.signed(g.axis(x), g.values[x].ndim)
    y = g.add(op, (x, g.constant(axis)), output_type=2, output_types=(INT32,))
    g.add("CAST", (y,), in_data_type=2, out_data_type=0, output_types=(FLOAT64,))


@draws("TOPK_V2")
def top(g: Growth, op: str, x: int) -> None:
    if g.values[x].ndim < 2:
        raise UnfitError
    g.add(op, (x, g.constant(g.between(1, g.shape(x)[-1]))), outputs=2)
