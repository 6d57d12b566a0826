"""A small federation of Flower's apps in this process, and the same by odt.federated alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy

import odt
from odt import federated
from odt.federated.flower import client_app, run_in_process, server_app
from odt.federated.update import Tensors
from support.paths import MLP_SM

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(200, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 200)]
CLIENTS, ROUNDS, SEED = 4, 3, 5
SIZES = (20, 60, 50, 70)  # samples of each client


def trainer(_: object = None) -> odt.Trainer:
    return odt.Trainer(MODEL, batch_size=8, workers=1, metrics=["accuracy"])


def member(partition: int) -> federated.Client:
    first = sum(SIZES[:partition])
    samples = range(first, first + SIZES[partition])
    return federated.Client(trainer(), X, Y, samples=samples, partition=partition, seed=SEED)


def client_of(context: Context) -> federated.Client:
    return member(int(context.node_config["partition-id"]))


def run(
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    strategy: Strategy | Callable[[Context], Strategy] | None = None,
    app: ClientApp | None = None,
    mods: Sequence[Any] = (),
    **more: Any,
) -> Tensors:
    """The tensors that a federation in this process has trained."""
    out = folder / "out.circle"
    out.unlink(missing_ok=True)
    run_in_process(
        server_app(strategy or FedAvg(fraction_evaluate=0.0), trainer=trainer),
        app or client_app(client_of, mods=mods),
        CLIENTS,
        run_config={"rounds": ROUNDS, "out": str(out), **(settings or {}), **more},
    )
    return federated.tensors_of(odt.Trainer(out))


def by_hand(
    partitions: Iterable[int] = range(CLIENTS), *, payload: str = "float32", rounds: int = ROUNDS
) -> Tensors:
    """What the same clients train with FedAvg, without Flower."""
    members = [member(k) for k in partitions]
    residuals: list[Tensors] = [{} for _ in members]
    tensors = members[0].tensors
    for number in range(1, rounds + 1):
        sent = federated.received(federated.broadcast(tensors, payload), tensors, payload)
        updates = []
        for client, residual in zip(members, residuals, strict=True):
            update = client.train(sent, number)
            encoded = federated.encode(update.tensors, sent, payload, residual)
            decoded = federated.decode(encoded, tensors, payload)
            updates.append(federated.Update(decoded, update.samples, update.metrics))
        tensors = federated.FedAvg().aggregate(number, tensors, updates)
    return tensors


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def changed(app: ClientApp, partition: int, change: Callable[[Message], Message]) -> ClientApp:
    """An app whose client of one partition changes its answers to messages of training."""
    whole = ClientApp()

    def reply(message: Message, context: Context) -> Message:
        answer = app(message, context)
        return change(answer) if context.node_config["partition-id"] == partition else answer

    @whole.train()
    def train(message: Message, context: Context) -> Message:
        return reply(message, context)

    return whole
