"""ClientApp: one participant of a Flower federation."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from odt.errors import OdtError
from odt.federated.client import Client, proximal_term
from odt.federated.flower.record_keys import (
    ARRAYS,
    CONFIG,
    METRICS,
    PARTITION,
    PAYLOAD,
    PROXIMAL,
    ROUND,
    SAMPLES,
)
from odt.federated.flower.records import from_record, to_record
from odt.federated.flower.settings import client_of
from odt.federated.payloads import encode, received

Handler: TypeAlias = Callable[[Message, Context], Message]
Mod: TypeAlias = Callable[[Message, Context, Handler], Message]

RESIDUAL = "odt-residual"  # record of the client's state: what int8 rounding left over
CLIENT_RAISED = 2  # error code of Flower
SERVER = "server"  # first word of messages about what the server sent


def client_app(
    client: Callable[[Context], Client] = client_of, *, mods: Sequence[Mod] = ()
) -> ClientApp:
    """Returns a ClientApp that trains and evaluates an `odt.federated.Client`.

    A reply holds tensors, a number of samples, metrics and the number of the partition. If the
    client fails, the reply holds the name of the exception, and the client's log holds its line.

    Args:
        client: function of the context that returns the client; called once for each partition in a
            process. Default: the client that the app's settings describe; `odt docs flower` lists
            them.
        mods: Flower's mods of training, such as LocalDpMod or fixedclipping_mod. They see float32
            tensors; the payload is made after them.
    """
    clients: dict[int, Client] = {}

    def member_of(context: Context) -> Client:
        partition = int(context.node_config.get(PARTITION, 0))
        if partition not in clients:
            clients[partition] = client(context)
        return clients[partition]

    def payload(message: Message, context: Context, handler: Handler) -> Message:
        """Decodes what the server sent and encodes the reply; a mod around those of the user."""
        config = cast(ConfigRecord, message.content[CONFIG])
        kind = str(config.get(PAYLOAD, "float32"))
        sent = from_record(message.content.array_records[ARRAYS], SERVER)
        tensors = received(sent, member_of(context).tensors, kind)
        message.content = RecordDict({ARRAYS: to_record(tensors), CONFIG: config})
        reply = handler(message, context)
        if reply.has_error() or ARRAYS not in reply.content:
            return reply
        residual = {}
        if RESIDUAL in context.state.array_records:
            stored = from_record(context.state.array_records[RESIDUAL], RESIDUAL)
            residual = {name: a.copy() for name, a in stored.items()}
        trained = from_record(reply.content.array_records[ARRAYS], "mod")
        reply.content[ARRAYS] = to_record(encode(trained, tensors, kind, residual))
        if residual:
            context.state[RESIDUAL] = to_record(residual)
        return reply

    app = ClientApp(mods=[_error_reply, payload])

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        tensors = from_record(message.content.array_records[ARRAYS], SERVER)
        config = message.content.config_records[CONFIG]
        member = member_of(context)
        with proximal_term(member.trainer, float(cast(float, config.get(PROXIMAL, 0.0)))):
            update = member.train(tensors, int(cast(int, config[ROUND])))
        metrics = _metrics(update.samples, member.partition, update.metrics)
        content = RecordDict({ARRAYS: to_record(update.tensors), METRICS: metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        tensors = from_record(message.content.array_records[ARRAYS], SERVER)
        member = member_of(context)
        metrics = _metrics(len(member.samples), member.partition, member.evaluate(tensors))
        return Message(RecordDict({METRICS: metrics}), reply_to=message)

    return app


def _metrics(samples: int, partition: int, metrics: Mapping[str, float]) -> MetricRecord:
    """Returns the metrics of a reply, with its counts."""
    return MetricRecord({SAMPLES: samples, PARTITION: partition, **metrics})


def _error_reply(message: Message, context: Context, handler: Handler) -> Message:
    """Turns an exception into an error reply without its text, which can quote samples; a mod."""
    log = logging.getLogger("flwr")
    try:
        return handler(message, context)
    except OdtError as e:
        log.error("%s", e)
        reason = type(e).__name__
    except Exception as e:
        log.error("ClientApp raised an exception", exc_info=e)
        reason = type(e).__name__
    return Message(Error(CLIENT_RAISED, f"{reason}; see the client's log"), reply_to=message)
