"""Compiled kernels of BATCH_MATMUL: many small products, whose factors may be transposed.

If b is one matrix for all rows of a, y and da are single long products, and db is the weight
gradient of FULLY_CONNECTED.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from odt.kernels.native import dense
from odt.kernels.native.bf16 import pays, rounded_workspace, with_bf16
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT, VECTOR
from odt.kernels.native.library import limit
from odt.kernels.native.structs import MatmulShape
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec

MAX_DEPTH = 1024  # of a product with less than MAX_LANES columns

Prepare = Callable[[Attrs, Specs], Mapping[str, Any]]
Shapes = dict[str, tuple[int, ...]]


def matmul_shape(result: str, factors: tuple[tuple[str, bool], ...], shapes: Shapes) -> MatmulShape:
    """Returns the struct of a product, from result and factors with flags for transposition.

    A single matrix that was broadcast has the sum of all products as gradient: the matrices of the
    factors are blocks of its depth.
    """
    y = shapes[result]
    (left_name, left_transposed), (right_name, right_transposed) = factors
    left, right = shapes[left_name], shapes[right_name]
    rows, columns = y[-2:]
    depth = left[-2] if left_transposed else left[-1]
    count = prod(y[:-2])
    blocks = max(prod(left[:-2]), prod(right[:-2])) if count == 1 else 1
    left_stride = 0 if prod(left[:-2]) == 1 else rows * depth
    right_stride = 0 if prod(right[:-2]) == 1 else depth * columns
    return MatmulShape(
        count=count,
        rows=rows,
        blocks=blocks,
        depth=depth,
        columns=columns,
        left_matrix_stride=left_stride,
        left_row_stride=1 if left_transposed else depth,
        left_block_stride=left_stride,
        left_depth_stride=rows if left_transposed else 1,
        right_matrix_stride=right_stride,
        right_block_stride=right_stride,
        right_depth_stride=1 if right_transposed else columns,
        right_column_stride=depth if right_transposed else 1,
    )


def fits_panel(depth: int, columns: int) -> bool:
    """Whether the panel is small enough: that of few columns holds all of the depth."""
    return columns >= VECTOR or depth <= MAX_DEPTH


def panel(depth: int, columns: int, width: int) -> Specs:
    """Returns the workspace for panels of a product; `depth` is that of all blocks."""
    if columns >= limit("MAX_LANES"):
        depth = min(depth, 2 * limit("DEPTH_BLOCK"))
    return {"panel": TensorSpec((limit("PANEL_PARTS"), depth, width), FLOAT)}


def factors(attrs: Attrs, result: str) -> tuple[tuple[str, bool], tuple[str, bool]]:
    """Returns the factors of y, da or db by name, and whether each is transposed."""
    if result == "y":
        return ("a", attrs.adj_x), ("b", attrs.adj_y)
    if result == "da":  # dy bᵀ, or its transpose b dyᵀ
        if attrs.adj_x:
            return ("b", attrs.adj_y), ("dy", True)
        return ("dy", False), ("b", not attrs.adj_y)
    if attrs.adj_y:  # dyᵀ a, the transpose of aᵀ dy
        return ("dy", True), ("a", attrs.adj_x)
    return ("a", not attrs.adj_x), ("dy", False)


def compiled_product(result: str, geometry: Prepare) -> Compiled:
    """Makes the compiled form of the kernel that computes y, da or db.

    Args:
        result: name of the result.
        geometry: returns `long`, whether b is one matrix for all rows of a.
    """

    def shapes(attrs: Attrs, s: Specs) -> Shapes:
        shapes_by_name = {n: s[n].shape for n in "aby"}
        if geometry(attrs, s)["long"]:
            shapes_by_name |= {
                n: (prod(shapes_by_name[n][:-1]), shapes_by_name[n][-1]) for n in "ay"
            }
            shapes_by_name["b"] = shapes_by_name["b"][-2:]
        return shapes_by_name | {f"d{n}": shape for n, shape in shapes_by_name.items()}

    def sums_rows(attrs: Attrs, s: Specs) -> bool:
        return result == "db" and bool(geometry(attrs, s)["long"])

    def weights(s: Specs) -> Specs:
        return {"w": TensorSpec(s["b"].shape[-2:], s["b"].dtype)}

    def fits(attrs: Attrs, s: Specs) -> bool:
        """Whether arrays are float32, and none is broadcast except a single matrix."""
        if any(s[n].dtype != FLOAT or not s[n].size for n in "aby"):
            return False
        if sums_rows(attrs, s):
            return dense.fits(attrs, weights(s))
        sizes, pair = shapes(attrs, s), factors(attrs, result)
        g = matmul_shape(result, pair, sizes)
        whole = all(prod(sizes[n][:-2]) in (1, g.count * g.blocks) for n, _ in pair)
        return whole and fits_panel(g.blocks * g.depth, g.columns)

    def workspace(attrs: Attrs, s: Specs) -> Specs:
        if sums_rows(attrs, s):
            return dense.filter_workspace(attrs, weights(s))
        g = matmul_shape(result, factors(attrs, result), shapes(attrs, s))
        if g.right_column_stride == 1 and g.columns >= VECTOR:
            return {}
        lanes = limit("MAX_LANES")
        width = min(limit("MAX_NR"), -(-g.columns // lanes)) * lanes
        return panel(g.blocks * g.depth, g.columns, width)

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        if sums_rows(attrs, s):
            return {"shape": None}
        return {"shape": matmul_shape(result, factors(attrs, result), shapes(attrs, s))}

    def to_call(attrs: Attrs, *, shape: MatmulShape | None, **arrays: Array) -> Callable[[], None]:
        if shape is None:
            a, dy = arrays["a"], arrays["dy"]
            left, right = (dy, a) if attrs.adj_y else (a, dy)
            dw = arrays["db"].reshape(arrays["db"].shape[-2:], copy=False)
            scratch, rounded = arrays.get("scratch"), arrays.get("rounded")
            return dense.grad_w(attrs, dy=left, x=right, dw=dw, scratch=scratch, rounded=rounded)
        left, right = (arrays[n] for n, _ in factors(attrs, result))
        if "rounded" in arrays:
            return bind("matmul_bf16", shape, left, right, arrays[result], arrays["rounded"])
        return bind("matmul", shape, left, right, arrays[result], arrays.get("panel"))

    def rounds(attrs: Attrs, s: Specs) -> bool:
        if not fits(attrs, s):
            return False
        g = matmul_shape(result, factors(attrs, result), shapes(attrs, s))
        return pays(g.rows, g.depth, g.columns)

    def rounded(attrs: Attrs, s: Specs) -> Specs:
        return rounded_workspace()

    return with_bf16(Compiled(to_call, fits, workspace, prepare), rounds, rounded)
