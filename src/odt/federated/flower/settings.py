"""Settings of a Flower app: the trainer, client and server that its configuration describes."""

from collections.abc import Mapping
from typing import Any, Self

from flwr.app import Context

import odt
from odt.core.recipe.option_values import check_whole
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.federated.client import Client
from odt.federated.flower.records import PARTITION
from odt.federated.payloads import check_kind
from odt.federated.privacy import DELTA

# Settings that are arguments of odt.Trainer, with "-" for "_".
TRAINER = (
    *("loss", "optimizer", "learning-rate", "batch-size", "clip-norm", "clip-value", "dropout"),
    *("metrics", "memory-budget", "micro-batch", "workers"),
)
SELECTION = ("last", "select", "freeze")  # what trains
DATA = ("input", "expected")  # paths of data files
CLIENT = ("epochs", "seed")
SERVER = (
    *("rounds", "clients", "payload", "norm-bound", "timeout", "state", "out", "delta"),
    *("test-input", "test-expected"),
)
KEYS = ("model", *TRAINER, *SELECTION, *DATA, *CLIENT, *SERVER)
WHERE = "tool.flwr.app.config"

Settings = Mapping[str, Any]


def settings_of(context: Context) -> Settings:
    """Returns the settings of an app: those of the node, then those of the run.

    An empty text counts as left out.

    Raises:
        OptionError: if a setting of the run is unknown.
    """
    unknown = sorted(set(context.run_config) - set(KEYS))
    if unknown:
        import difflib

        close = difflib.get_close_matches(unknown[0], KEYS, n=1)
        hint = f"Did you mean {close[0]}?" if close else "docs/flower.md lists them."
        raise OptionError(WHERE, "must hold settings of odt", unknown[0], hint)
    merged = {**context.run_config, **context.node_config}
    return {name: value for name, value in merged.items() if value != ""}


def trainer_of(context: Context) -> "odt.Trainer":
    """Returns the trainer that the settings describe.

    Args:
        context: context of a ClientApp or ServerApp.

    Raises:
        OdtError: if the model cannot be read, or settings are wrong.
    """
    settings = settings_of(context)
    options = {name.replace("-", "_"): settings[name] for name in TRAINER if name in settings}
    if "metrics" in options:
        options["metrics"] = words(options["metrics"])
    options.setdefault("workers", 1)  # results depend on the number of workers
    last = settings.get("last")
    patterns, frozen = (words(settings.get(name, "")) for name in ("select", "freeze"))
    trainable = odt.Trainable(last=last, patterns=patterns, freeze=frozen)
    return odt.Trainer(needed(settings, "model"), trainable=trainable, **options)


def client_of(context: Context) -> Client:
    """Returns the client that the settings describe.

    The settings `input` and `expected` name its data files, usually in the node's own settings.

    Args:
        context: context of a ClientApp, whose node has the setting partition-id.

    Raises:
        OdtError: if model or data cannot be read, or settings are wrong.
    """
    settings = settings_of(context)
    trainer = trainer_of(context)
    data = trainer.open(needed(settings, "input"), needed(settings, "expected"))
    return Client(
        trainer,
        data,
        partition=int(context.node_config.get(PARTITION, 0)),
        epochs=int(settings.get("epochs", 1)),
        seed=int(settings.get("seed", 0)),
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the server.

    Attributes:
        rounds: number of rounds.
        clients: number of clients to wait for before the first round.
        payload: form of the tensors on their way: float32, float16 or int8.
        norm_bound: largest L2 norm of an update; None for no limit.
        timeout: seconds after which a round goes on without the clients that did not answer.
        state: path of the state file; empty for none.
        out: path of the trained model; empty for none.
        delta: δ of the loss of differential privacy that the log reports.
        test: paths of inputs and targets on which the global model is evaluated; empty for none.
    """

    rounds: int
    clients: int
    payload: str
    norm_bound: float | None
    timeout: float
    state: str
    out: str
    delta: float
    test: tuple[str, str] | None

    @classmethod
    def of(cls, context: Context) -> Self:
        """Returns the settings of a context, checked.

        Raises:
            OptionError: if a setting is wrong.
        """
        settings = settings_of(context)
        for name, least in (("rounds", 0), ("clients", 0)):
            check_whole(name, settings.get(name), least)
        for name in ("norm-bound", "timeout"):
            if not settings.get(name, 1) > 0:
                raise OptionError(name, "must be above 0", settings[name])
        test = settings.get("test-input")
        return cls(
            rounds=settings.get("rounds", 3),
            clients=settings.get("clients", 2),
            payload=check_kind(str(settings.get("payload", "float32"))),
            norm_bound=settings.get("norm-bound"),
            timeout=float(settings.get("timeout", 3600)),
            state=str(settings.get("state", "")),
            out=str(settings.get("out", "")),
            delta=float(settings.get("delta", DELTA)),
            test=(str(test), str(needed(settings, "test-expected"))) if test else None,
        )

    def judge(self, trainer: "odt.Trainer") -> Client | None:
        """Returns a client that evaluates on the test data; None without test data.

        Args:
            trainer: trainer of the server.
        """
        return Client(trainer, *self.test) if self.test else None


def words(text: Any) -> tuple[str, ...]:
    """Returns the words of a setting that are separated by commas.

    Args:
        text: the setting.
    """
    return tuple(word.strip() for word in str(text).split(",") if word.strip())


def needed(settings: Settings, name: str) -> Any:
    """Returns a setting that has no default.

    Args:
        settings: settings by name.
        name: name of the setting.

    Raises:
        OptionError: if it is left out.
    """
    if name not in settings:
        raise OptionError(f"{WHERE}: {name}", "must be given", "none")
    return settings[name]
