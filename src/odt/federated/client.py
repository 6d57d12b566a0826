"""Client: one participant's training and evaluation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.data.dataset import EpochOrder
from odt.core.data.protocol import scales_of
from odt.core.recipe.option_values import check_whole
from odt.core.training.best_epoch import Best
from odt.core.training.trainer import Trainer as CoreTrainer
from odt.errors import OptionError, TrainingError
from odt.federated.tensors import load_tensors, tensors_of
from odt.federated.update import Tensors, Update
from odt.training.trainer import Trainer


class Client:
    """Trains and evaluates a model on one participant's samples.

    Seeds are functions of (seed, round, partition) alone, so that clients give the same bits in any
    order and in any process. Several clients of one process can share a trainer.

    Attributes:
        trainer: trainer of the model; its weights are set and its optimizer state reset before each
            use; learning rate, seed and best epoch are restored after it.
        samples: numbers of the client's samples in its data.
        partition: number of the client among all.
    """

    @checked_arguments
    def __init__(
        self,
        trainer: Trainer,
        x: Any,
        y: Any = None,
        *,
        samples: Sequence[int] | None = None,
        partition: int = 0,
        epochs: int = 1,
        rounds: int | None = None,
        seed: int = 0,
    ) -> None:
        """Opens the data; training allocates memory.

        Args:
            trainer: trainer of the model, with its optimizer, batch size and trainable weights.
            x: inputs: arrays, the path of a data file, or a DataSet, as in `Trainer.fit`.
            y: targets (N, …); left out with a DataSet.
            samples: numbers of the client's samples, from 0; None for all.
            partition: number of the client among all, from 0.
            epochs: number of epochs in a round.
            rounds: number of rounds over which the learning rate falls to 0 by half a cosine; None
                for a constant rate.
            seed: random seed of the whole federation.

        Raises:
            DataError: if the data does not match the model.
            OptionError: if the trainer has a schedule of its own, there are no samples, or a number
                is out of range.
        """
        check_whole("epochs", epochs, 1)
        check_whole("rounds", rounds, 1)
        check_whole("partition", partition, 0)
        check_whole("seed", seed, 0)
        if schedule := trainer.session.recipe.info.schedule:
            rule = "must be left out in a federation, whose rate falls by rounds"
            raise OptionError("schedule", rule, schedule)
        self.trainer = trainer
        self.partition = partition
        self._data = trainer.session.open(x, y)
        if samples is not None:
            _check_samples(samples, self._data.length)
        self.samples = range(self._data.length) if samples is None else samples
        self._epochs = epochs
        self._rounds = rounds
        self._seed = seed

    @property
    def tensors(self) -> Tensors:
        """Copies of the tensors that train, by name, and of running statistics that move."""
        return tensors_of(self.trainer)

    @checked_arguments
    def train(self, tensors: Tensors, round: int) -> Update:
        """Trains one round, beginning with tensors from a server and a new optimizer state.

        Args:
            tensors: mapping from names to arrays, in the form of the attribute `tensors`.
            round: number of the round, from 1.

        Returns:
            The trained tensors, the number of samples, and the loss and metrics of the last epoch.

        Raises:
            DataError: if the tensors do not match the model, or a sample cannot be used.
            TrainingError: if the loss or a trained value is NaN or infinite.
        """
        check_whole("round", round, 1)
        load_tensors(self.trainer, tensors)
        core = self.trainer.session.build(scales=scales_of(self._data.weights))
        seed = round_seed(self._seed, round, self.partition)
        rate = core.info.learning_rate * rate_factor(round, self._rounds)
        order = EpochOrder(self.samples, shuffle=True, seed=seed, drop_last=False)
        with _training_with(core, rate, seed):
            for epoch in core.train(self._data, order, epochs=self._epochs, drop_last=False):
                logs = self.trainer.session.logs(epoch.training)
        trained = tensors_of(self.trainer)
        for name, a in trained.items():
            if not np.isfinite(a).all():
                raise TrainingError(
                    f"{name} must be finite after training. Lower the learning rate."
                )
        return Update(trained, len(self.samples), finite(logs))

    @checked_arguments
    def evaluate(self, tensors: Tensors) -> Mapping[str, float]:
        """Computes loss and metrics on the client's samples, without training.

        Args:
            tensors: mapping from names to arrays, in the form of the attribute `tensors`.

        Raises:
            DataError: if the tensors do not match the model.
        """
        load_tensors(self.trainer, tensors)
        result = self.trainer.evaluation.validate(self._data, self.samples, rest=True)
        return finite(self.trainer.session.logs(result))


@contextmanager
def _training_with(core: CoreTrainer, rate: float, seed: int) -> Iterator[None]:
    """Sets learning rate and seed, and compares no epochs with those of `fit`; a `with` block.

    Args:
        core: trainer of the client.
        rate: learning rate.
        seed: seed of the masks of dropout, and of the rounding of integers.
    """
    parameters = core.parameters
    optimizer = parameters.optimizer
    assert optimizer is not None, "a trainer has one"
    before = optimizer.learning_rate, parameters.mask_seed, core.best
    optimizer.learning_rate, parameters.mask_seed = rate, seed
    core.best = Best({}, core.best.monitor.name)
    core.undo = None  # of an earlier `fit`; each makes its own
    try:
        yield
    finally:
        optimizer.learning_rate, parameters.mask_seed, core.best = before


@contextmanager
def proximal_term(trainer: Trainer, mu: float) -> Iterator[None]:
    """Adds a proximal term to the loss of rounds that begin in a `with` block.

    Args:
        trainer: trainer of the clients.
        mu: factor μ of the term; 0 for none.
    """
    parameters = trainer.session.build().parameters
    before = parameters.proximal_mu
    parameters.proximal_mu = mu
    try:
        yield
    finally:
        parameters.proximal_mu = before


def _check_samples(samples: Sequence[int], count: int) -> None:
    """Raises OptionError unless these are numbers of `count` samples, at least one."""
    try:
        numbers = np.asarray(samples)
    except ValueError:  # rows of different lengths
        numbers = np.array(None)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise OptionError("samples", "must be a list of whole numbers", type(samples).__name__)
    if not numbers.size or numbers.min() < 0 or numbers.max() >= count:
        got = f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"
        raise OptionError("samples", f"must be one or more numbers from 0 to {count - 1}", got)


def rate_factor(round: int, rounds: int | None) -> float:
    """Returns the factor of a round's learning rate, ½ (1 + cos(π (t − 1) / T)), 1 in the first.

    Source: Loshchilov and Hutter, SGDR (2017); Li et al., On the Convergence of FedAvg on Non-IID
    Data (2020), show that the rate must fall for clients with different data.

    Args:
        round: number t of the round, from 1.
        rounds: number T of rounds; None for a constant rate.
    """
    if rounds is None:
        return 1.0
    return (1 + math.cos(math.pi * min(round - 1, rounds - 1) / rounds)) / 2


def round_seed(seed: int, round: int, partition: int) -> int:
    """Returns the random seed of a client's round, below 2⁶³.

    Args:
        seed: random seed of the federation.
        round: number of the round.
        partition: number of the client.
    """
    return int(np.random.default_rng((seed, round, partition)).integers(2**63))


def finite(logs: Mapping[str, float]) -> dict[str, float]:
    """Returns loss and metrics without those that are undefined, such as AUC on one class.

    Args:
        logs: value by name.
    """
    return {name: float(value) for name, value in logs.items() if math.isfinite(value)}
