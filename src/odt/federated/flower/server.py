"""ServerApp: rounds with a strategy of Flower, a checked grid and a state file."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    Strategy,
)

from odt.core.storage.reading import printable
from odt.errors import DataError, OdtError, OptionError, TrainingError
from odt.federated.checks import check_tensors
from odt.federated.flower import saved_round
from odt.federated.flower.checked_grid import EQUAL, CheckedGrid, log
from odt.federated.flower.noise import is_private, noise_multipliers
from odt.federated.flower.record_keys import NORM_BIT, SAMPLES
from odt.federated.flower.records import to_record
from odt.federated.flower.saved_round import SavedRound, chain
from odt.federated.flower.settings import ServerSettings, trainer_of
from odt.federated.privacy import composed_loss
from odt.federated.tensors import load_tensors, tensors_of
from odt.text import quantity
from odt.training.trainer import Trainer

ADAPTIVE = DifferentialPrivacyClientSideAdaptiveClipping
CLIENTS_CLIP = (ADAPTIVE, DifferentialPrivacyClientSideFixedClipping)


def server_app(
    strategy: Strategy | Callable[[Context], Strategy],
    *,
    trainer: Callable[[Context], Trainer] = trainer_of,
) -> ServerApp:
    """Returns a ServerApp that trains what a trainer trains, round by round.

    The app's settings say how many rounds, and where the state and the trained model are written;
    `odt docs flower` lists them. If the state file exists, the federation resumes from it. With
    fewer good replies than `min-clients`, the federation stops with one line, and no model is
    written; a state file holds the last one.

    Args:
        strategy: a strategy of Flower, or a function of the context that returns one.
        trainer: function of the context that returns the trainer, whose weights are the first
            global model. Default: the trainer that the app's settings describe.
    """
    app = ServerApp()
    log().addFilter(without_traceback)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            instance = strategy if isinstance(strategy, Strategy) else strategy(context)
            Federation(grid, context, instance, trainer(context)).run()
        except OdtError as e:
            log().error("%s", e)
            raise

    return app


def without_traceback(record: logging.LogRecord) -> bool:
    """Filter of Flower's log: an error that a user can correct has a line, and no traceback."""
    if record.exc_info and isinstance(record.exc_info[1], OdtError):
        record.exc_info = None
    return True


class Federation:
    """The server's part of a federation: rounds, the global model and its file.

    Args:
        grid: Flower's grid, or an `InProcessGrid`.
        context: context of the ServerApp.
        strategy: strategy of Flower.
        trainer: trainer whose weights are the first global model.

    Raises:
        OptionError: if a setting is wrong, or contradicts the strategy.
        DataError: if the validation data cannot be read, or does not match the model.

    Attributes:
        tensors: the global model: what trains, by name.
        round: number of the last round that is complete.
        noise: noise multipliers of all releases so far, for differential privacy.
    """

    def __init__(self, grid: Grid, context: Context, strategy: Strategy, trainer: Trainer) -> None:
        self._settings = ServerSettings.from_context(context)
        check_clipping(strategy, self._settings.payload)
        weights = [link.weighted_by_key for link in chain(strategy) if has_weights(link)]
        self._grid = CheckedGrid(
            grid,
            payload=self._settings.payload,
            norm_bound=self._settings.norm_bound,
            needed=(NORM_BIT,) if isinstance(strategy, ADAPTIVE) else (),
            weight=weights[-1] if weights else SAMPLES,
        )
        self._strategy = strategy
        self._trainer = trainer
        self.tensors = tensors_of(trainer)
        self.round = 0
        self.noise: list[float] = []
        self._evaluator = self._settings.evaluator(trainer)

    def run(self) -> None:
        """Resumes from the state file if there is one, runs the rounds, then writes the model."""
        settings = self._settings
        if saved_round.exists(settings.state):
            self._resume()
        self._wait()
        while self.round < settings.rounds:
            self._round(self.round + 1)
        if settings.out:
            load_tensors(self._trainer, self.tensors)
            self._trainer.export(settings.out)
            log().info("Trained model: %s", settings.out)

    def _resume(self) -> None:
        """Restores the state in the file; warns of settings that have changed since."""
        settings = self._settings
        saved = SavedRound.read(settings.state, self.tensors)
        saved_round.restore(saved, self._strategy, settings.state)
        self.tensors = saved.tensors
        self.round = saved.round
        self.noise = list(saved.noise)
        for name in dict.fromkeys((*saved.settings, *settings.training)):
            before, now = (s.get(name, "left out") for s in (saved.settings, settings.training))
            if now != before:
                log().warning(
                    "%s: %s was %s, and is %s.",
                    settings.state,
                    printable(name),
                    printable(before),
                    now,
                )
        log().info(
            "%s: resumes after round %d of %d.", settings.state, saved.round, settings.rounds
        )

    def _wait(self) -> None:
        """Waits until the first round can have all clients."""
        clients = self._settings.clients
        before = None
        while self.round < self._settings.rounds:
            connected = len(list(self._grid.get_node_ids()))
            if connected >= clients:
                return
            if connected != before:
                log().info("Waits for clients: %d of %d are connected.", connected, clients)
            before = connected
            time.sleep(1)

    def _round(self, number: int) -> None:
        """Trains, saves and evaluates one round."""
        settings = self._settings
        strategy = self._strategy
        grid = self._grid
        arrays = to_record(self.tensors)
        messages = list(strategy.configure_train(number, arrays, ConfigRecord(), grid))
        replies = list(grid.send_and_receive(messages, timeout=settings.timeout))
        used = [reply for reply in replies if not reply.has_error()]
        if messages and len(used) < settings.min_clients:
            raise TrainingError(
                f"round {number}: must have updates of at least "
                f"{quantity(settings.min_clients, 'client')}, but got {len(used)}. The model is "
                f"that of round {number - 1}."
            )
        words = [f"round {number} of {settings.rounds}: {quantity(len(used), 'client')}"]
        trained, metrics = strategy.aggregate_train(number, replies)
        if trained is None or not self._apply(trained):
            words.append("the model is unchanged")
        if trained is not None and is_private(strategy):
            self.noise += noise_multipliers(strategy, used)
            words.append(self._privacy())
        words += metric_texts(metrics)
        self.round = number
        if settings.state:
            saved = saved_round.saved_round(
                number, self.tensors, strategy, self.noise, settings.training
            )
            saved.write(settings.state)
        arrays = to_record(self.tensors)
        messages = strategy.configure_evaluate(number, arrays, ConfigRecord(), grid)
        replies = list(grid.send_and_receive(messages, timeout=settings.timeout))
        words += metric_texts(strategy.aggregate_evaluate(number, replies), "clients' ")
        if self._evaluator is not None:
            words += metric_texts(self._evaluator.evaluate(self.tensors), "validation ")
        log().info("%s", ", ".join(words))

    def _privacy(self) -> str:
        """Returns the text of the loss of privacy so far."""
        delta = self._settings.delta
        try:
            epsilon = composed_loss(self.noise, delta=delta)
            return f"epsilon {epsilon:.2f} at delta {delta:g} for one client more, less or replaced"
        except OdtError as e:  # training does not need the accountant
            return f"epsilon unknown ({e})"

    def _apply(self, record: ArrayRecord) -> bool:
        """Takes the strategy's arrays as the global model; warns and returns False if it cannot."""
        tensors = {n: np.asarray(record[n].numpy(), np.float32) for n in record}
        try:
            check_tensors(tensors, self.tensors, "strategy", "The model is unchanged.")
        except DataError as e:
            log().warning("%s", e)
            return False
        self.tensors = {name: tensors[name] for name in self.tensors}
        return True


def metric_texts(metrics: Mapping[str, Any] | None, prefix: str = "") -> list[str]:
    """Returns metrics as texts such as "loss 0.1234", without the weights of replies.

    Args:
        metrics: number by name; None for none.
        prefix: words before each name.
    """
    return [
        f"{prefix}{printable(name)} {value:.4f}"
        for name, value in (metrics or {}).items()
        if name not in (EQUAL, SAMPLES)
    ]


def has_weights(strategy: Any) -> bool:
    """Whether a strategy weights the replies by one of their metrics."""
    return isinstance(getattr(strategy, "weighted_by_key", None), str)


def check_clipping(strategy: Strategy, payload: str) -> None:
    """Refuses a payload that rounds what clients have clipped: it could exceed their norm.

    Args:
        strategy: strategy of the federation.
        payload: form of the tensors.

    Raises:
        OptionError: if clients clip and the payload is not float32.
    """
    if payload != "float32" and isinstance(strategy, CLIENTS_CLIP):
        rule = "must be float32 if clients clip their updates, because rounding changes the norm"
        raise OptionError("payload", rule, payload)
