"""A simulated federation: a server and clients that share one trainer."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.data.protocol import scales_of
from odt.core.model.record import Record
from odt.errors import DataError, TrainingError, warn
from odt.federated.checks import check_update
from odt.federated.client import Client, finite
from odt.federated.history import History, Round
from odt.federated.partitions import partition
from odt.federated.payloads import broadcast, decode, encode, nbytes_of, received
from odt.federated.settings import Settings
from odt.federated.strategies.strategy import whole_share
from odt.federated.tensors import load_tensors, tensors_of
from odt.federated.update import Array, Tensors, Update
from odt.text import quantity
from odt.training.trainer import Trainer

# Last numbers of seeds. Those of clients' rounds, (seed, round, k), end in the client's number.
SAMPLING, OFFLINE, HOLD_OUT = 2**31 + 1, 2**31 + 2, 2**31 + 3


class Federation:
    """The state of a federation between two rounds.

    Attributes:
        trainer: trainer that takes the place of each client in turn.
        settings: settings of the federation.
        strategy: how updates become new tensors.
        tensors: tensors of the server.
        residuals: what rounding to int8 left over, by client.
        rounds: results by round, from round 0.
        clients: the clients.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: DataSet,
        settings: Settings,
        validation_set: DataSet | None = None,
        record: Record | None = None,
    ) -> None:
        """Divides the data and allocates the memory of a client.

        Args:
            trainer: trainer of the model.
            data: samples of all clients.
            settings: settings of the federation.
            validation_set: samples on which the model is evaluated after each round.
            record: preprocessing record of the data.

        Raises:
            OptionError: if settings contradict the data or the model.
        """
        self.trainer = trainer
        self.settings = settings
        self._validation_set = validation_set
        labels = data.labels(trainer.session.samples.losses)
        parts = partition(settings.partition, data, labels, settings.clients, settings.seed, record)
        self.strategy = settings.new_strategy()
        self.strategy.state = {}  # an earlier federation may have left one
        trainer.session.build(scales=scales_of(data.weights))
        self.tensors = tensors_of(trainer)
        self.residuals: list[Tensors] = [{} for _ in parts]
        self.rounds: list[Round] = []
        self.clients: list[Client] = []
        # Clients that evaluate on their held-back samples; None for a client without such samples.
        self._held_back: list[Client | None] = []
        for k, part in enumerate(parts):
            training, held_back = self._split(part, k)
            self.clients.append(self._client(data, training, k))
            self._held_back.append(self._client(data, held_back, k) if len(held_back) else None)

    def _client(self, data: DataSet, samples: Array, k: int) -> Client:
        """Returns client k, with some of the samples."""
        settings = self.settings
        return Client(
            self.trainer,
            data,
            samples=samples,  # type: ignore[arg-type]  # an array is read like a Sequence
            partition=k,
            epochs=settings.epochs,
            rounds=settings.decay_rounds,
            seed=settings.seed,
        )

    def _split(self, part: Array, k: int) -> tuple[Array, Array]:
        """Divides a client's samples into those for training and those held back."""
        count = whole_share(self.settings.client_validation, len(part))
        order = np.random.default_rng((self.settings.seed, k, HOLD_OUT)).permutation(part)
        return np.sort(order[count:]), np.sort(order[:count])

    @property
    def number(self) -> int:
        """Number of the last round."""
        return self.rounds[-1].round if self.rounds else 0

    def memory(self) -> dict[str, int]:
        """Bytes that the federation needs, by purpose."""
        settings = self.settings
        nbytes = nbytes_of(self.tensors)
        residuals = settings.clients if settings.payload == "int8" else 0
        return {
            "one client": self.trainer.session.build().memory().total,
            "tensors of the server": nbytes,
            f"updates of {quantity(settings.sampled, 'client')}": settings.sampled * nbytes,
            "error feedback of all clients": residuals * nbytes,
            "state of the strategy": len(self.strategy.moments) * nbytes,
        }

    def begin(self) -> None:
        """Evaluates the model before training, as round 0."""
        self.rounds.append(
            Round(
                round=0,
                sampled=0,
                trained=0,
                refused=(),
                samples=0,
                bytes_up=0,
                bytes_down=0,
                metrics=self._evaluate(),
            )
        )

    def load(self) -> None:
        """Loads the tensors into the trainer."""
        load_tensors(self.trainer, self.tensors)

    def run_round(self) -> None:
        """Runs one round: the clients train, and the strategy makes new tensors.

        Raises:
            TrainingError: if there are fewer updates than `min_clients`, or the new tensors cannot
                be evaluated; the tensors are unchanged.
            DataError: if a tensor is too large for the payload; the tensors are unchanged.
        """
        settings = self.settings
        number = self.number + 1
        sent = broadcast(self.tensors, settings.payload)
        start = received(sent, self.tensors, settings.payload)
        updates: list[Update] = []
        refused: list[str] = []
        bytes_up = 0
        sampled = self._sampled(number)
        for k in sampled[self._online(number, len(sampled))]:
            residual = dict(self.residuals[k])  # `encode` changes it, even if the update is refused
            try:
                trained = self.clients[k].train(start, number)
                payload = encode(trained.tensors, start, settings.payload, self.residuals[k])
                bytes_up += nbytes_of(payload)
                updates.append(self._checked_update(payload, trained, f"client {k}"))
            except (DataError, TrainingError) as e:
                self.residuals[k] = residual
                line = str(e).removeprefix(f"client {k}: ")
                refused.append(f"round {number}: client {k}: {line}")
                warn(refused[-1])
        if len(updates) < settings.min_clients:
            self.load()
            raise TrainingError(
                f"round {number}: must have updates of at least {settings.min_clients} of "
                f"{len(sampled)} clients, but got {len(updates)}. The model is that of round "
                f"{number - 1}."
            )
        metrics = weighted_metrics(updates) | self._aggregate(number, updates)
        self.rounds.append(
            Round(
                round=number,
                sampled=len(sampled),
                trained=len(updates),
                refused=tuple(refused),
                samples=sum(u.samples for u in updates),
                bytes_up=bytes_up,
                bytes_down=nbytes_of(sent) * len(sampled),
                metrics=metrics,
            )
        )

    def _checked_update(self, payload: Tensors, trained: Update, name: str) -> Update:
        """Returns a client's update as the server decodes it; raises DataError if a check fails.

        Args:
            payload: the tensors as the client sends them.
            trained: the client's update, with its counts and metrics.
            name: name of the client, for messages.
        """
        tensors = decode(payload, self.tensors, self.settings.payload, name)
        update = Update(tensors, trained.samples, trained.metrics)
        check_update(update, self.tensors, self.settings.norm_bound, name)
        return update

    def _aggregate(self, number: int, updates: Sequence[Update]) -> dict[str, float]:
        """Makes the tensors of a round; returns loss and metrics on the data for evaluation.

        Raises:
            TrainingError: if the new tensors cannot be evaluated; the tensors are unchanged.
        """
        tensors = self.tensors
        state = dict(self.strategy.state)
        self.tensors = self.strategy.aggregate(number, tensors, updates)
        try:
            return self._evaluate()
        except (DataError, TrainingError) as e:
            self.tensors = tensors
            self.strategy.state = state
            self.load()
            raise TrainingError(
                f"round {number}: {e} The model is that of round {number - 1}."
            ) from e

    def _sampled(self, number: int) -> Array:
        """Returns the numbers of the clients of a round, in ascending order."""
        rng = np.random.default_rng((self.settings.seed, number, SAMPLING))
        return np.sort(rng.permutation(self.settings.clients)[: self.settings.sampled])

    def _online(self, number: int, count: int) -> Array:
        """Returns whether each of the sampled clients answers (count,)."""
        rng = np.random.default_rng((self.settings.seed, number, OFFLINE))
        answers: Array = rng.random(count) >= self.settings.offline
        return answers

    def _evaluate(self) -> dict[str, float]:
        """Loads the tensors, and computes loss and metrics on the data for evaluation."""
        trainer = self.trainer
        self.load()
        logs: dict[str, float] = {}
        if self._validation_set is not None:
            order = range(self._validation_set.length)
            result = trainer.evaluation.validate(self._validation_set, order, rest=True)
            logs |= finite(trainer.session.logs(result, "val_"))
        results = [c.evaluate(self.tensors) for c in self._held_back if c is not None]
        for name in dict.fromkeys(name for metrics in results for name in metrics):
            values = [metrics[name] for metrics in results if name in metrics]
            logs[f"client_{name}"] = float(np.mean(values))
            if name == "loss":
                logs["client_max_loss"] = max(values)
            else:
                logs[f"client_min_{name}"] = min(values)
        return logs

    def history(self) -> History:
        """Returns the results so far."""
        sizes = tuple(len(c.samples) for c in self.clients)
        return History(tuple(self.rounds), dict(self.tensors), sizes)


def weighted_metrics(updates: Sequence[Update]) -> dict[str, float]:
    """Returns means of loss and metrics, weighted by samples.

    Args:
        updates: updates of a round. A metric that some clients lack is the mean of the others.
    """
    means = {}
    names = dict.fromkeys(name for update in updates for name in update.metrics)
    for name in names:
        reports = [u for u in updates if name in u.metrics]
        total = sum(u.samples for u in reports)
        means[name] = sum(u.samples * u.metrics[name] for u in reports) / total
    return means
