"""The stack of kernels in programs for microcontrollers, by the C file they are in."""

from types import MappingProxyType

# The most bytes of stack that a call into a C file takes, if gcc compiles it for 32-bit ARM with
# -Os, -O2 or -O3 and the limits of `microcontroller`. See tests/accept/test_accept_mcu.py.
STACK = MappingProxyType(
    {
        "attention.c": 1792,
        "batch_matmul.c": 1408,
        "bitmask.c": 768,
        "convolution.c": 3416,
        "dense.c": 576,
        "depthwise.c": 3584,
        "elementwise.c": 3584,
        "extremes.c": 2560,
        "gather.c": 192,
        "grouped.c": 1792,
        "instance_norm.c": 2752,
        "integer.c": 3584,
        "normalization.c": 320,
        "packed.c": 1216,
        "pool.c": 1280,
        "random.c": 256,
        "recurrent.c": 2048,
        "rotate.c": 256,
        "scans.c": 192,
        "softmax.c": 1536,
        "stored_products.c": 4832,  # with that of convolution.c, which it calls
        "transpose.c": 256,
        "typed.c": 2176,
        "updates.c": 1152,
    }
)
PROGRAM = 512  # bytes of stack of a program's own functions and of those of the C library
