"""Model files as objects: made, cut, given new heads, quantized, described."""
