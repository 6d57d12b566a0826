"""Epochs, evaluation, prediction and metrics over data. Knows no file format."""
