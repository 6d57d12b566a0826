"""Results of single samples: the loss of each, its target and its prediction."""

import numpy as np

from odt.kernels.rows.lossdef import IGNORED, LABELS
from odt.kernels.rows.metricdef import FLAGS, NUMBERS, OutputForm
from odt.kernels.rows.opdef import Array, TensorSpec

MAX_VALUES = 16  # of a sample that are kept


class SampleResults:
    """Loss, target and prediction of each sample.

    Attributes:
        losses: loss of each sample, of all outputs together; their mean is the loss of the data.
        true, predicted: class of each sample, or its value; None if a sample has several.
        targets, outputs: values (samples, K) of targets and outputs, if these have the same form;
            None for classes, or if a sample has more than MAX_VALUES.
        probability: probability of the predicted class; None for values.

    Args:
        length: number of samples.
        form: form of the outputs and targets.
        output: spec of one sample of the first output that has a loss.
    """

    def __init__(self, length: int, form: OutputForm, output: TensorSpec) -> None:
        self.losses = np.full(length, np.nan)  # NaN for samples not seen
        self.true: Array | None = None
        self.predicted: Array | None = None
        self.probability: Array | None = None
        self.targets: Array | None = None
        self.outputs: Array | None = None
        self._form = form
        if form.targets == NUMBERS:
            if output.size <= MAX_VALUES:
                self.targets, self.outputs = np.zeros((2, length, output.size))
            if output.size == 1:
                self.true, self.predicted = np.zeros((2, length))
        elif output.size == form.classes and (form.targets != FLAGS or form.classes == 1):
            self.true, self.predicted = np.zeros((2, length), np.int64)
            self.probability = np.zeros(length)

    @property
    def wrong(self) -> Array:
        """Numbers of the samples that are not predicted as their class, the largest loss first.

        If predictions are values, or samples have several classes, the numbers of all samples.
        """
        order = np.argsort(-self.losses, kind="stable")
        if self.probability is None:
            return order
        assert self.true is not None, "samples with probabilities have classes"
        are_wrong = (self.true != IGNORED) & (self.true != self.predicted)
        return np.asarray(order[are_wrong[order]])

    def add(self, sample: int, loss: float, y: Array, t: Array) -> None:
        """Adds one sample.

        Args:
            sample: its number.
            loss: its loss.
            y: values of its output.
            t: values of its target.
        """
        self.losses[sample] = loss
        if self.targets is not None and self.outputs is not None and t.size == y.size:
            self.targets[sample], self.outputs[sample] = t, y
        if self.true is None or self.predicted is None:
            return
        form = self._form
        if self.probability is None:
            self.true[sample], self.predicted[sample] = t[0], y[0]
            return
        if form.targets == FLAGS:
            best, true = int(y[0] > form.threshold), int(t[0] > 0)
            # The sigmoid of a logit, which overflows for none.
            p = np.exp(-np.logaddexp(0.0, -np.float64(y[0]))) if form.logits else y[0]
            p = p if best else 1 - p
        else:
            best, true = int(y.argmax()), int(t[0] if form.targets == LABELS else t.argmax())
            # The softmax of the largest logit: e⁰ over the sum.
            p = 1 / np.exp(np.float64(y) - y[best]).sum() if form.logits else y[best]
        self.true[sample], self.predicted[sample], self.probability[sample] = true, best, p
