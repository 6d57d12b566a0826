"""What a row is, of each kind, and the index of names. Independent of kernels."""
