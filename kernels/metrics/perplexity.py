"""Perplexity: e to the mean of −log p of the labels, for p of the model.

A model that takes its guesses from n equally likely classes has the perplexity n. With the loss
sparse_categorical_crossentropy, it is e to the loss of the same weights.

Source: Jelinek et al. (1977), Perplexity: a measure of the difficulty of speech recognition tasks;
torchmetrics' Perplexity.
"""

import math

import numpy as np

from odt.kernels.geometry.softmax_geometry import SMALLEST
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import MeanMetric, MetricDef
from odt.kernels.rows.opdef import Array

MAX_LOG = math.log(1.7e308)  # above, the perplexity is infinite


class Perplexity(MeanMetric):
    by_row = True

    def sum(self, y: Array, t: Array) -> float:
        of_labels = np.take_along_axis(y, t, axis=1)
        if not self.form.logits:
            return float(-np.log(np.maximum(of_labels, SMALLEST)).sum(dtype=np.float64))
        most = y.max(axis=1, keepdims=True, initial=-np.inf)
        logs = np.log(np.exp(y - most).sum(axis=1, keepdims=True)) + most - of_labels
        return float(logs.sum(dtype=np.float64))

    def sum_of_rows(self, terms: Array, best: Array, t: Array) -> float:
        return float(terms.sum(dtype=np.float64))

    def value(self) -> float:
        mean = super().value()
        return math.exp(mean) if mean < MAX_LOG else math.inf


METRIC = MetricDef(
    "perplexity",
    Perplexity,
    "e to the mean of −log p of the labels",
    (LABELS,),
    place=4,
)
