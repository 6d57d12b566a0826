"""A simulated federation: a server and clients that share one trainer."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.model.record import Record
from odt.errors import DataError, TrainingError, warn
from odt.federated.checks import check_update
from odt.federated.client import Client, finite
from odt.federated.history import History, Round
from odt.federated.partitions import partition
from odt.federated.payloads import broadcast, decode, encode, nbytes_of, received
from odt.federated.settings import Settings
from odt.federated.tensors import load_tensors, tensors_of
from odt.federated.update import Array, Tensors, Update
from odt.training.trainer import Trainer

# Streams of random numbers that belong to no client, in place of its number in a seed.
SAMPLING, OFFLINE, HOLD_OUT = 2**31 + 1, 2**31 + 2, 2**31 + 3


class Federation:
    """The state of a federation between two rounds.

    Attributes:
        trainer: trainer that is each client in turn.
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
        self.trainer, self.settings, self._validation_set = trainer, settings, validation_set
        labels = data.labels(trainer.session.samples.losses)
        parts = partition(settings.partition, data, labels, settings.clients, settings.seed, record)
        self.strategy = settings.new_strategy()
        core = trainer.session.build(weighted=data.weights is not None)
        core.parameters.proximal_mu = self.strategy.proximal_mu
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
        count = int(len(part) * self.settings.client_validation)
        order = np.random.default_rng((self.settings.seed, k, HOLD_OUT)).permutation(part)
        return np.sort(order[count:]), np.sort(order[:count])

    @property
    def number(self) -> int:
        """Number of the last round."""
        return self.rounds[-1].round if self.rounds else 0

    def memory(self) -> dict[str, int]:
        """Bytes that the federation needs, by purpose."""
        tensors, settings = nbytes_of(self.tensors), self.settings
        feedback = settings.clients if settings.payload == "int8" else 0
        return {
            "one client": self.trainer.session.build().memory().total,
            "tensors of the server": tensors,
            f"updates of {settings.sampled} clients": settings.sampled * tensors,
            "error feedback of all clients": feedback * tensors,
            "state of the strategy": len(self.strategy.moments) * tensors,
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
        """
        settings, number = self.settings, self.number + 1
        kind = settings.payload
        sent = broadcast(self.tensors, kind)
        begin = received(sent, self.tensors, kind)
        updates: list[Update] = []
        refused: list[str] = []
        upload = 0  # bytes
        sampled = self._sampled(number)
        for k in sampled[self._online(number, len(sampled))]:
            residual = dict(self.residuals[k])
            try:
                update = self.clients[k].train(begin, number)
                payload = encode(update.tensors, begin, kind, self.residuals[k])
                upload += nbytes_of(payload)
                name = f"client {k}"
                tensors = decode(payload, self.tensors, kind, name)
                update = Update(tensors, update.samples, update.metrics)
                check_update(update, self.tensors, settings.norm_bound, name)
                updates.append(update)
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
        before, state = self.tensors, dict(self.strategy.state)
        self.tensors = self.strategy.aggregate(number, self.tensors, updates)
        try:
            metrics = weighted_metrics(updates) | self._evaluate()
        except (DataError, TrainingError) as e:
            self.tensors, self.strategy.state = before, state
            self.load()
            raise TrainingError(
                f"round {number}: {e} The model is that of round {number - 1}."
            ) from e
        self.rounds.append(
            Round(
                round=number,
                sampled=len(sampled),
                trained=len(updates),
                refused=tuple(refused),
                samples=sum(u.samples for u in updates),
                bytes_up=upload,
                bytes_down=nbytes_of(sent) * len(sampled),
                metrics=metrics,
            )
        )

    def _sampled(self, number: int) -> Array:
        """Numbers of the clients of a round, in ascending order."""
        rng = np.random.default_rng((self.settings.seed, number, SAMPLING))
        return np.sort(rng.permutation(self.settings.clients)[: self.settings.sampled])

    def _online(self, number: int, count: int) -> Array:
        """Whether each of the sampled clients answers."""
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
        for name in results[0] if results else ():
            values = [metrics[name] for metrics in results if name in metrics]
            logs[f"client_{name}"] = float(np.mean(values))
            worst = f"client_max_{name}" if name == "loss" else f"client_min_{name}"
            logs[worst] = max(values) if name == "loss" else min(values)
        return logs

    def history(self) -> History:
        """Results so far."""
        sizes = tuple(len(c.samples) for c in self.clients)
        return History(tuple(self.rounds), dict(self.tensors), sizes)


def weighted_metrics(updates: Sequence[Update]) -> dict[str, float]:
    """Means of loss and metrics, weighted by samples.

    Args:
        updates: updates of a round; a metric that a client lacks is the mean of the others.
    """
    means = {}
    for name in dict.fromkeys(n for update in updates for n in update.metrics):
        reports = [u for u in updates if name in u.metrics]
        total = sum(u.samples for u in reports)
        means[name] = sum(u.samples * u.metrics[name] for u in reports) / total
    return means
