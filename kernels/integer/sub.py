"""INTEGER_SUB: y = a − b of quantized tensors; see kernels/families/integer_sum.py."""

from odt.kernels.families.integer_sum import sum_row

OP = sum_row("INTEGER_SUB", -1)
