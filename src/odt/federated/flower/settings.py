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

# A setting has the name of the option of `odt fed simulate` for the same value, if there is one.
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
# Where a message says that a setting is missing: a section of pyproject.toml, an option of Flower.
RUN_CONFIG = "tool.flwr.app.config"
NODE_CONFIG = "node-config"

Settings = Mapping[str, Any]


def settings_of(context: "Context") -> Settings:
    """Returns the settings of a run, overridden by those of the node; without empty texts.

    Args:
        context: context of a ClientApp or ServerApp.

    Raises:
        OptionError: if a setting of the run is unknown.
    """
    unknown = sorted(set(context.run_config) - set(KEYS))
    if unknown:
        import difflib

        close = difflib.get_close_matches(unknown[0], KEYS, n=1)
        hint = f"Did you mean {close[0]}?" if close else "odt docs flower lists them."
        raise OptionError(RUN_CONFIG, "must hold settings of odt", unknown[0], hint)
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
        required(settings, "model", RUN_CONFIG),
        hyper_parameters=_arguments(settings, HYPER),
        trainable=Trainable(**_arguments(settings, SELECTION)),
        **_arguments(settings, TRAINER),
    )
    files = (str(settings.get(name, "")) for name in ("load-input", "validation-input"))
    data = next((path for path in files if os.path.isfile(path)), None)
    trainer.record = recorded(data)  # for the metadata of the trained model
    return trainer


def _arguments(settings: Settings, rows: Mapping[str, Option]) -> dict[str, Any]:
    """Returns the arguments of `new_trainer` or `Trainable` that the settings give.

    Args:
        settings: settings by name.
        rows: name of a setting → row of the argument.
    """
    arguments = {}
    for name, row in rows.items():
        if name not in settings:
            continue
        value = settings[name]
        if isinstance(row.kind, Form) and row.kind.several:
            value = words(value)
        elif isinstance(row.kind, RowName) and row.kind.register is LOSSES:
            value = stored_loss(str(value))  # refuses a loss that is Python code
        arguments[row.name] = value
    return arguments


def client_of(context: "Context") -> Client:
    """Returns the client that the settings describe.

    A node that sets `load-input` and `load-expected` trains on all samples of these files. Other
    nodes share the files of the run, and each trains on the samples that `odt fed simulate` would
    give to the client of the same number.

    Args:
        context: context of a ClientApp, whose node has the settings partition-id and, to share
            files, num-partitions.

    Raises:
        OdtError: if model or data cannot be read, or settings are wrong.
    """
    settings = settings_of(context)
    node = context.node_config
    shares_files = "load-input" not in node
    where = RUN_CONFIG if shares_files else NODE_CONFIG
    inputs = required(settings, "load-input", where)
    targets = required(settings, "load-expected", where)
    number = int(node.get(PARTITION, 0))
    check_whole(PARTITION, number, 0)
    if shares_files:
        clients = int(required(node, PARTITIONS, NODE_CONFIG))
        if number >= clients:
            raise OptionError(PARTITION, f"must be less than {PARTITIONS}, {clients}", number)
    decay = settings.get("decay", FEDERATION_OPTIONS["decay"].default)
    check_option(FEDERATION_OPTIONS["decay"], decay)
    seed, rounds = settings.get("seed", 0), settings.get("rounds", ROUNDS)
    check_whole("seed", seed, 0)
    check_whole("rounds", rounds, 0)
    trainer = trainer_of(context)
    data = trainer.session.open(inputs, targets)
    samples = None
    if shares_files:
        kind = str(settings.get("partition", "iid"))
        labels = data.labels(trainer.session.samples.losses)
        parts = partition(kind, data, labels, clients, seed, recorded(inputs))
        samples = parts[number]
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

        Args:
            context: context of a ServerApp.

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
        if settings.keys() & {"validation-input", "validation-expected"}:
            inputs = required(settings, "validation-input", RUN_CONFIG)
            targets = required(settings, "validation-expected", RUN_CONFIG)
            validation_files = str(inputs), str(targets)
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

    def evaluator(self, trainer: Trainer) -> Client | None:
        """Returns a client that evaluates on the validation data; None without it.

        Args:
            trainer: trainer of the server.

        Raises:
            DataError: if the validation data cannot be read, or does not match the model.
        """
        return Client(trainer, *self.validation_files) if self.validation_files else None


def words(text: Any) -> tuple[str, ...]:
    """Returns the words of a setting that are separated by commas.

    Args:
        text: the setting.
    """
    return tuple(word.strip() for word in str(text).split(",") if word.strip())


def required(settings: Settings, name: str, where: str) -> Any:
    """Returns a setting that has no default.

    Args:
        settings: settings by name.
        name: name of the setting.
        where: where a user gives it, for the message: RUN_CONFIG or NODE_CONFIG.

    Raises:
        OptionError: if it is left out.
    """
    if name not in settings:
        raise OptionError(f"{where}: {name}", "must be given", "none")
    return settings[name]
