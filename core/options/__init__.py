"""The options of a training run, one row each. Independent of NumPy and the engine."""
