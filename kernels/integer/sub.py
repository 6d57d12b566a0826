"""INTEGER_SUB: y = a − b of quantized tensors; see kernels/families/integer_sum.py."""

from odt.kernels.families.integer_sum import constants, sum_row

__all__ = ["OP", "constants"]

OP = sum_row("INTEGER_SUB", -1)
