"""Data of a training run: sources, sample order, classes."""
