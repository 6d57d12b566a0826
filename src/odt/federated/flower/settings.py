"""Settings of a Flower app: the trainer, client and server that its configuration describes."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from odt.core.options.federation_options import FEDERATION_OPTIONS
from odt.core.options.option import Form, Option, RowName
from odt.core.options.schedule_options import DIVISION_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import HYPER_OPTIONS, RECIPE_OPTIONS, SELECTION_OPTIONS
from odt.core.recipe.option_values import check_option, check_whole
from odt.data.sources import recorded
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.federated.client import Client
from odt.federated.defaults import new_trainer
from odt.federated.flower.record_keys import PARTITION, PARTITIONS
from odt.federated.partitions import partition
from odt.federated.payloads import check_kind
from odt.federated.privacy import DELTA
from odt.kernels.loss_text import stored_loss
from odt.kernels.registry import LOSSES
from odt.training.trainable import Trainable
from odt.training.trainer import Trainer

if TYPE_CHECKING:
    from flwr.app import Context

# Settings have the names of options of `odt fed simulate`, where there is one.
TRAINER = {
    row.word: row
    for table in (RECIPE_OPTIONS, DIVISION_OPTIONS, SESSION_OPTIONS)
    for row in table.values()
    if row.federated
}
HYPER = {row.word: row for row in HYPER_OPTIONS.values()}
SELECTION = {row.word: row for row in SELECTION_OPTIONS.values() if row.federated}
DATA = ("load-input", "load-expected", "validation-input", "validation-expected")
FEDERATION = (
    "clients",
    "min-clients",
    "partition",
    "rounds",
    "epochs",
    "decay",
    "seed",
    "payload",
    "norm-bound",
    "timeout",
    "delta",
    "state",
    "out",
)
SAME = (*TRAINER, *HYPER, *SELECTION, "partition", "epochs", "decay", "seed")  # in all rounds
KEYS = ("model", *TRAINER, *HYPER, *SELECTION, *DATA, *FEDERATION)
ROUNDS = 20
WHERE = "tool.flwr.app.config"

Settings = Mapping[str, Any]


def settings_of(context: "Context") -> Settings:
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


def trainer_of(context: "Context") -> Trainer:
    """Returns the trainer that the settings describe.

    Args:
        context: context of a ClientApp or ServerApp.

    Raises:
        OdtError: if the model cannot be read, or settings are wrong.
    """
    settings = settings_of(context)
    trainer = new_trainer(
        needed(settings, "model"),
        hyper_parameters=_values(settings, HYPER),
        trainable=Trainable(**_values(settings, SELECTION)),
        **_values(settings, TRAINER),
    )
    files = (str(settings.get(name, "")) for name in ("load-input", "validation-input"))
    data = next((path for path in files if os.path.isfile(path)), None)
    trainer.record = recorded(data)  # for the metadata of the trained model
    return trainer


def _values(settings: Settings, rows: Mapping[str, Option]) -> dict[str, Any]:
    """Returns the options in Python that are set, by the rows of settings."""
    values = {}
    for word, row in rows.items():
        if word in settings:
            setting = settings[word]
            if isinstance(row.kind, Form) and row.kind.several:
                setting = words(setting)
            elif isinstance(row.kind, RowName) and row.kind.register is LOSSES:
                setting = stored_loss(str(setting))  # from a file: it names no code
            values[row.name] = setting
    return values


def client_of(context: "Context") -> Client:
    """Returns the client that the settings describe.

    A node with the settings `load-input` and `load-expected` of its own trains on all samples of
    these files. Other nodes share the files of the run and train on their part of them, the same
    part as in `odt fed simulate`.

    Args:
        context: context of a ClientApp, whose node has the settings partition-id and, to share
            files, num-partitions.

    Raises:
        OdtError: if model or data cannot be read, or settings are wrong.
    """
    settings, node = settings_of(context), context.node_config
    trainer, number = trainer_of(context), int(node.get(PARTITION, 0))
    files = needed(settings, "load-input"), needed(settings, "load-expected")
    data, samples = trainer.session.open(*files), None
    seed, rounds = int(settings.get("seed", 0)), int(settings.get("rounds", ROUNDS))
    if "load-input" not in node:
        labels = data.labels(trainer.session.samples.losses)
        kind, count = str(settings.get("partition", "iid")), int(needed(node, PARTITIONS))
        parts = partition(kind, data, labels, count, seed, recorded(files[0]))
        if not 0 <= number < count:
            raise OptionError(PARTITION, f"must be less than {PARTITIONS}, {count}", number)
        samples = parts[number]
    decay = settings.get("decay", FEDERATION_OPTIONS["decay"].default)
    check_option(FEDERATION_OPTIONS["decay"], decay)
    return Client(
        trainer,
        data,
        samples=samples,  # type: ignore[arg-type]  # an array is read like a Sequence
        partition=number,
        epochs=settings.get("epochs", 1),
        rounds=rounds if rounds and decay == "cosine" else None,
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the server.

    Attributes:
        rounds: number of rounds.
        clients: number of clients to wait for before the first round.
        min_clients: smallest number of updates that a round needs.
        payload: form of the tensors on their way: float32, float16 or int8.
        norm_bound: largest L2 norm of an update; None for no limit.
        timeout: seconds after which a round continues without the clients that did not answer.
        state: path of the state file; empty for none.
        out: path of the trained model; empty for none.
        delta: δ of the loss of differential privacy that the log reports.
        training: settings that should be the same in all rounds.
        validation_files: paths of inputs and targets on which the global model is evaluated; None
            for none.
    """

    rounds: int
    clients: int
    min_clients: int
    payload: str
    norm_bound: float | None
    timeout: float
    state: str
    out: str
    delta: float
    training: Settings
    validation_files: tuple[str, str] | None

    @classmethod
    def from_context(cls, context: "Context") -> Self:
        """Returns the settings of a context, checked.

        Raises:
            OptionError: if a setting is wrong.
        """
        settings = settings_of(context)
        for name, least in (("rounds", 0), ("clients", 0), ("min-clients", 1)):
            check_whole(name, settings.get(name), least)
        for name in ("norm-bound", "timeout", "delta"):
            value = settings.get(name, 1)
            if not isinstance(value, int | float) or not value > 0:
                raise OptionError(name, "must be a number above 0", value)
        validation_files = None
        if inputs := settings.get("validation-input"):
            validation_files = str(inputs), str(needed(settings, "validation-expected"))
        return cls(
            rounds=settings.get("rounds", ROUNDS),
            clients=settings.get("clients", 2),
            min_clients=settings.get("min-clients", 1),
            payload=check_kind(str(settings.get("payload", "float32"))),
            norm_bound=settings.get("norm-bound"),
            timeout=float(settings.get("timeout", 3600)),
            state=str(settings.get("state", "")),
            out=str(settings.get("out", "")),
            delta=float(settings.get("delta", DELTA)),
            training={name: settings[name] for name in SAME if name in settings},
            validation_files=validation_files,
        )

    def judge(self, trainer: Trainer) -> Client | None:
        """Returns a client that evaluates on the validation data; None without it.

        Args:
            trainer: trainer of the server.
        """
        return Client(trainer, *self.validation_files) if self.validation_files else None


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
