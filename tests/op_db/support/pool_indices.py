"""Pools with positions of maxima: options as a TfLitePoolParams."""

import struct

from op_db import Options

SAME, VALID = 1, 2  # TfLitePadding


def pool_struct(
    padding: int, window: tuple[int, int], stride: tuple[int, int], activation: int = 0
) -> Options:
    fields = (padding, *stride[::-1], *window[::-1], activation)
    return {"custom_options": struct.pack("<6i", *fields)}
