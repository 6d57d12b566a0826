"""Epochs, evaluation, prediction and metrics. Independent of model file formats."""
