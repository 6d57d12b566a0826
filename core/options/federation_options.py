"""Options of `odt.federated.simulate`, which are options of `odt fed` too."""

from typing import Any

from odt.core.options.option import (
    FEDERATION,
    VALIDATION,
    Form,
    Number,
    Whole,
    Word,
    option,
    rows_of,
)
from odt.dataclass import dataclass

PAYLOADS = ("float32", "float16", "int8")  # types in which updates travel
BELOW_1 = Number("at least 0 and below 1", most=1, open_most=True)


@dataclass(frozen=True, slots=True)
class FederationOptions:
    """Options of a federation. Each field is the row of an option."""

    clients: int = option(10, Whole(1), FEDERATION, "Number of simulated clients.", common=True)
    partition: Any = option(
        "iid",
        Form("text", "iid, dirichlet:ALPHA, by-label[:SHARDS], by-column[:NAME] or an .npy file"),
        FEDERATION,
        "Division of the samples among the clients: iid, dirichlet:ALPHA (the smaller ALPHA, the "
        "more uneven the classes), by-label[:SHARDS], by-column[:NAME] of a table, or an .npy file "
        "with the number of the client of each sample.",
        metavar="KIND",
        common=True,
    )
    strategy: Any = option(
        "fedavg",
        Form("text", "a [strategy](federated.md#strategies), with options"),
        FEDERATION,
        "Strategy of the server: fedavg, fedprox, fedadam, fedyogi, fedmedian, trimmed-mean or "
        "krum, such as fedprox:mu=0.1. odt docs federated lists their options.",
        metavar="NAME[:OPTION=VALUE,…]",
        common=True,
    )
    rounds: int = option(20, Whole(0), FEDERATION, "Number of rounds.", common=True)
    epochs: int = option(
        1, Whole(1), FEDERATION, "Number of epochs of a client in a round.", common=True
    )
    decay: str = option(
        "cosine",
        Word(("cosine", "none")),
        FEDERATION,
        "Decay of the learning rate over the rounds.",
    )
    fraction: float = option(
        1.0,
        Number("above 0 and at most 1", most=1, open_least=True),
        FEDERATION,
        "Client sampling: fraction of the clients that train in a round.",
    )
    offline: float = option(
        0.0, BELOW_1, FEDERATION, "Drop-out: probability that a sampled client does not answer."
    )
    min_clients: int = option(
        1,
        Whole(1),
        FEDERATION,
        "Smallest number of updates that a round needs; with fewer, the command stops.",
    )
    payload: str = option(
        "float32",
        Word(PAYLOADS),
        FEDERATION,
        "Type in which updates travel; int8 has error feedback.",
    )
    norm_bound: float | None = option(
        None,
        Number("a number above 0", open_least=True),
        FEDERATION,
        "Refuse updates whose change has a larger L2 norm.",
        metavar="NORM",
    )
    seed: int = option(
        0,
        Whole(0),
        FEDERATION,
        "Random seed of partition, sampling, drop-out and training.",
        common=True,
    )
    client_validation: float = option(
        0.0,
        BELOW_1,
        VALIDATION,
        "Fraction of each client's samples that is held back; the client evaluates the model on "
        "them after every round.",
        metavar="FRACTION",
    )


FEDERATION_OPTIONS = rows_of(FederationOptions)
