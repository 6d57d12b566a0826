"""`simulate`: a federation in one process, round by round, with checkpoints and a log."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from odt.arguments import checked_arguments
from odt.data.sources import recorded
from odt.federated import federation_file
from odt.federated.client import proximal_term
from odt.federated.federation import Federation
from odt.federated.history import History, Round, check_log, write_log
from odt.federated.settings import Settings
from odt.federated.strategies.strategy import Strategy
from odt.federated.update import Array
from odt.training.fitting import pair
from odt.training.trainer import Trainer

Path = str | os.PathLike[str]


@checked_arguments
def simulate(
    trainer: Trainer,
    x: Any,
    y: Any = None,
    *,
    clients: int = 10,
    partition: str | Sequence[int] | Array = "iid",
    strategy: str | Strategy = "fedavg",
    rounds: int = 20,
    epochs: int = 1,
    decay: str = "cosine",
    fraction: float = 1.0,
    offline: float = 0.0,
    min_clients: int = 1,
    payload: str = "float32",
    norm_bound: float | None = None,
    seed: int = 0,
    validation_data: Any = None,
    client_validation: float = 0.0,
    checkpoint: Path | None = None,
    save_to: Path | None = None,
    log: Path | None = None,
    on_begin: Callable[[Federation], None] | None = None,
    on_round: Callable[[Round], None] | None = None,
) -> History:
    """Trains a model on data that is divided among simulated clients, in one process.

    The trainer takes the place of each client in turn, so that the memory of one client is enough,
    besides the updates of a round. Its options are those of the clients: batch size, optimizer,
    learning rate, what trains. Afterwards it holds the trained model, for `evaluate` and `export`.

    Args:
        trainer: trainer of the model.
        x: inputs of all clients: arrays, the path of a data file, or a DataSet.
        y: targets (N, …); left out with a DataSet.
        clients: number of clients.
        partition: iid, dirichlet:ALPHA, by-label:SHARDS or by-column:NAME; or the number of the
            client of each sample (N,). `odt docs federated` explains them.
        strategy: fedavg, fedprox, fedadam, fedyogi, fedmedian, trimmed_mean or krum, with options
            such as fedprox:mu=0.1; or a Strategy, whose state is cleared first.
        rounds: number of rounds, including those before a resumed checkpoint; if `decay` is cosine,
            a federation that resumes must have the same number.
        epochs: number of epochs of a client in a round.
        decay: cosine: the learning rate falls to 0 over the rounds, by half a cosine; none: it
            stays the same.
        fraction: fraction of the clients that is sampled in each round.
        offline: probability that a sampled client drops out before it answers.
        min_clients: smallest number of updates that a round needs.
        payload: float32; float16 for half of the bytes; int8 with error feedback for a quarter of
            the bytes from clients and half of those to clients.
        norm_bound: largest L2 norm of the difference of an update to the tensors of the server;
            larger ones are refused. None for no limit.
        seed: random seed of partition, sampling, drop-out and training.
        validation_data: (x, y) or a DataSet on which the model is evaluated after each round.
        client_validation: fraction of each client's samples that is held back, on which the client
            evaluates the model after each round.
        checkpoint: path of a federation's checkpoint to resume from.
        save_to: path of a checkpoint, ending in .odt, saved after each round.
        log: path of a .csv or .jsonl file with a row for each round.
        on_begin: called before the first round, when memory is allocated.
        on_round: called after each round, and with round 0, the model before training. It may set
            `trainer.stop_training` to end the federation after this round.

    Returns:
        Loss, metrics, counts and bytes by round, and the trained tensors.

    Raises:
        OptionError: if arguments contradict each other, the data or the checkpoint.
        DataError: if the data does not match the model, a tensor is too large for the payload, or
            the log cannot be written.
        ModelError: if a checkpoint cannot be read or written.
        TrainingError: if a round has fewer updates than `min_clients`.
    """
    trainer.stop_training = False
    settings = Settings(
        clients=clients,
        partition=partition,
        strategy=strategy,
        rounds=rounds,
        epochs=epochs,
        decay=decay,
        fraction=fraction,
        offline=offline,
        min_clients=min_clients,
        payload=payload,
        norm_bound=norm_bound,
        seed=seed,
        client_validation=client_validation,
    )
    if log is not None:
        check_log(log)
    if save_to is not None:
        federation_file.check_path(save_to)
    validation_set = (
        None if validation_data is None else trainer.session.open(*pair(validation_data))
    )
    record = recorded(x)
    federation = Federation(trainer, trainer.session.open(x, y), settings, validation_set, record)
    trainer.record = record or trainer.record

    def report() -> None:
        if log is not None:
            write_log(federation.rounds, log)
        if on_round is not None:
            on_round(federation.rounds[-1])

    with proximal_term(trainer, federation.strategy.proximal_mu):
        if checkpoint is not None:
            federation_file.resume(checkpoint, federation)
        if on_begin is not None:
            on_begin(federation)
        if not federation.rounds:
            federation.begin()
            report()
        federation.load()
        while federation.number < rounds and not trainer.stop_training:
            federation.run_round()
            if save_to is not None:
                federation_file.save(save_to, federation)
            report()
    return federation.history()
