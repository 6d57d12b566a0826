"""Training of a classifier's last layer on features: of new samples, and stored ones (replay)."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.balanced_order import BalancedOrder
from odt.core.data.dataset import DataSet
from odt.core.lowering.class_head import ClassHead
from odt.core.model.graph import ABSENT
from odt.core.recipe.trained_file import weights_as_read
from odt.core.training.exemplars import MAX_FEATURE
from odt.core.training.feature_store import FeatureStore
from odt.core.training.new_class_rows import new_class_rows
from odt.data.class_labels import LabeledSamples
from odt.errors import DataError, TrainingError
from odt.kernels.geometry.quantize import dequantize, quantize
from odt.training.callbacks import Logs
from odt.training.trainer import Trainer

Array: TypeAlias = np.ndarray[Any, Any]

FEW = 3  # samples of a class from which at least one is held back


class Replay:
    """Features of new and stored samples, and the last layer that trains on them.

    Samples are numbered: the new ones first, then the stored ones.

    Attributes:
        labels: class of each sample.
        validation: numbers of the new samples that are held back.
        stored: numbers of the stored samples.
        missing: classes without any sample.
        new_features: features of the new samples.
        memory: planned bytes of weights, optimizer state, activations and features.
    """

    def __init__(
        self,
        trainer: Trainer,
        head: ClassHead,
        store: FeatureStore,
        new_samples: LabeledSamples,
        x: Any,
        held_back: float,
        seed: int,
    ) -> None:
        """Plans and allocates memory, and computes the features of the new samples.

        Args:
            trainer: trainer of the model with outputs for all classes.
            head: last layer of the old model.
            store: stored features, of the same classes as `new_samples`.
            new_samples: classes of the new samples.
            x: inputs of the new samples.
            held_back: fraction of the new samples of each class to hold back.
            seed: random seed.

        Raises:
            DataError: if there is not one class for each sample.
            TrainingError: if features are not finite, or too large.
        """
        inputs = trainer.session.open(x, targets=False)
        new = inputs.length
        if len(new_samples.labels) != new:
            raise DataError(
                f"y: must have a class for each of the {new} samples, but has "
                f"{len(new_samples.labels)}."
            )
        classes = len(new_samples.names)
        count = new + len(store)
        self.labels = np.concatenate([new_samples.labels, store.labels])
        self.validation = _held_back(new_samples.labels, held_back, seed)
        self.stored = np.arange(new, count)
        self.missing = np.flatnonzero(np.bincount(self.labels, minlength=classes) == 0)
        training = np.setdiff1d(np.arange(count), self.validation)
        self._order = BalancedOrder(training, self.labels[training], seed)
        labels = self.labels.astype(np.int32)
        targets = DataSet((), array_columns([labels], trainer.session.samples.target_specs, "y"))
        self._core = core = trainer.session.build(count)
        self._data = core.frozen(inputs, targets, [range(new), range(new, count)])
        self.memory = core.memory().total + self._data.nbytes + self._data.arena_nbytes
        self._data.put(range(new, count), store.features)
        (self._features,) = self._data.values(range(count))
        self.new_features = self._features[:new]
        largest = float(np.abs(self._features).max())
        if not largest <= MAX_FEATURE:
            raise TrainingError(
                f"x: the features of all samples must be at most {MAX_FEATURE:g}, but got "
                f"{largest:g}."
            )
        tensors = core.parameters.tensors
        self._weights = tensors[head.weights]
        self._bias = tensors[head.bias] if head.bias != ABSENT else np.zeros(classes)
        self._head = head
        self._model = trainer.session.recipe.lowered.unrolled
        values = {i: t.real for i, t in enumerate(trainer.session.recipe.graph.tensors)}
        self._before = self._rows(values, head.classes)
        self._after: tuple[Array, Array] | None = None  # computed after training

    def train(self, epochs: int) -> None:
        """Trains for some epochs; rows of new classes begin as linear discriminants."""
        classes = len(self._weights)
        if classes > self._head.classes:
            samples = self._order.samples
            labels = self._order.labels
            groups = [self._features[samples[labels == k]] for k in range(classes)]
            self._weights[:], self._bias[:] = new_class_rows(*self._before, groups)
        for _ in self._core.train(self._data, self._order, epochs=epochs, drop_last=False):
            pass

    def _rows(self, values: Mapping[int, Any], classes: int) -> tuple[Array, Array]:
        """Copies the weights and the bias of the first classes."""
        bias = values.get(self._head.bias, np.zeros(classes))
        return values[self._head.weights][:classes].copy(), bias[:classes].copy()

    def scores(self, samples: Array) -> tuple[Logs, Logs] | tuple[None, None]:
        """Returns accuracy and loss of the model before training, and of its export.

        Args:
            samples: numbers of samples; the results are None if there are none.
        """
        if not len(samples):
            return None, None
        if self._after is None:
            exported = weights_as_read(self._model, self._core.weights())
            self._after = self._rows(exported, len(self._weights))
        features = self._features[samples]
        labels = self.labels[samples]
        before, after = (
            _score(self._logits(features, *rows), labels) for rows in (self._before, self._after)
        )
        return before, after

    def _logits(self, features: Array, weights: Array, bias: Array) -> Array:
        """Returns the logits of features (n, F), as integers would hold them if the model has them.

        Args:
            features: features of n samples.
            weights: weights (C, F) of the last layer.
            bias: its bias (C,).
        """
        logits = features.astype(np.float64) @ weights.T + bias
        for i in self._head.outputs[:-1]:
            if (quantization := self._model.quantization.get(i)) is not None:
                dtype = self._model.graph.tensors[i].spec.dtype
                return dequantize(quantize(logits, quantization, dtype), quantization)
        return logits


def _held_back(labels: Array, fraction: float, seed: int) -> Array:
    """Draws a fraction of the samples of each class; returns their numbers in order."""
    rng = np.random.default_rng(seed)
    chosen = [np.empty(0, np.intp)]  # np.concatenate needs an array
    for k in np.unique(labels):
        numbers = rng.permutation(np.flatnonzero(labels == k))
        if fraction and len(numbers) >= FEW:
            count = max(round(fraction * len(numbers)), 1)
            chosen.append(numbers[: min(count, len(numbers) - 1)])  # one sample trains
    return np.sort(np.concatenate(chosen))


def _score(logits: Array, labels: Array) -> Logs:
    """Returns accuracy, averaged over the classes, and cross-entropy.

    Args:
        logits: logits (n, C).
        labels: classes (n,); with a class from C on, the cross-entropy is infinite.
    """
    correct = logits.argmax(axis=1) == labels
    accuracy = np.mean([correct[labels == k].mean() for k in np.unique(labels)])
    if labels.max() >= logits.shape[1]:
        return {"accuracy": float(accuracy), "loss": float("inf")}
    logits = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
    return {"accuracy": float(accuracy), "loss": float(losses.mean())}
