"""Fused activations: their codes in files, and the bounds of those that limit values."""

from math import inf

NONE, RELU, RELU_N1_TO_1, RELU6, TANH = range(5)  # ActivationFunctionType in the TFLite schema
BOUNDS = {NONE: (-inf, inf), RELU: (0.0, inf), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
