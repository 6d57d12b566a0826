"""Forms of compiled products that round their factors to bfloat16: see src/bf16.c.

Sums are float32. Where the processor's dot products of bfloat16 are slower than multiply-adds of
floats, as on Intel's, the same factors are multiplied by these. Products of few rows, columns or
values of a sum stay in float32, because rounding takes longer than it saves.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import limit
from odt.kernels.rows.opdef import Attrs, Compiled, Specs, TensorSpec, never, never_packed

LEAST = 32  # rows, columns or values of a sum
PRODUCTS = 2**17  # rows · columns · values of a sum


def pays(*sizes: int) -> bool:
    """Whether a product takes less time if its factors are rounded.

    Args:
        sizes: rows, columns and values of a sum, in any order.
    """
    return min(sizes) >= LEAST and prod(sizes) >= PRODUCTS


def pairs(depth: int) -> int:
    """Returns the number of floats that the rounded values of a sum take."""
    return -(-depth // 2)


def rounded_workspace() -> Specs:
    """Returns the workspace of a product whose factors are rounded."""
    size = limit("PANEL_PARTS") * limit("BF16_SCRATCH")
    return {"rounded": TensorSpec((size,), FLOAT)}


def with_bf16(
    compiled: Compiled,
    fits: Callable[[Attrs, Specs], bool],
    workspace: Callable[[Attrs, Specs], Specs],
    packed: Callable[[Attrs, Specs], TensorSpec | None] = never_packed,
) -> Compiled:
    """Returns a compiled form that has one for bfloat16, too.

    Args:
        compiled: the form; with workspace `rounded`, its calls round.
        fits, workspace, packed: those of the form for bfloat16.
    """
    form = replace(compiled, fits=fits, workspace=workspace, packed=packed, takes_addend=never)
    return replace(compiled, bf16=form)
