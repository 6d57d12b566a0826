"""A federation in one process: Flower's apps without Ray, sockets or other processes.

This file alone uses private parts of Flower. It is tested with Flower 1.41.0.
"""

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from odt.errors import OdtError

RUN = 1  # number of the run; the server is node 0, the clients are nodes 1, 2, …
CLIENT_RAISED = 2  # error code of Flower


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    clients: int = 4,
    *,
    run_config: Mapping[str, bool | float | int | str] | None = None,
    node_configs: Sequence[Mapping[str, bool | float | int | str]] = (),
) -> None:
    """Runs a ServerApp and its clients in this process, one client after the other.

    Args:
        server_app: the server.
        client_app: the app of all clients.
        clients: number of clients; each has a state of its own.
        run_config: settings of the app, as in its pyproject.toml.
        node_configs: settings of each client, besides partition-id and num-partitions; none for
            clients beyond the last.

    Raises:
        OdtError: if there are settings for more than `clients`.
    """
    if len(node_configs) > clients:
        raise OdtError(
            f"run_in_process: node_configs must be settings of at most {clients} clients, but got "
            f"{len(node_configs)}."
        )
    identity = (TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id)
    TaskIdentity.run_id = RUN
    TaskIdentity.node_id = 0
    TaskIdentity.task_id = 1
    settings = dict(run_config or {})
    grid = InProcessGrid(client_app, clients, settings, node_configs)
    try:
        server_app(grid, Context(RUN, 0, {}, RecordDict(), settings))
    finally:
        TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = identity


class InProcessGrid(Grid):
    """Calls the ClientApp when a message is sent, and keeps the reply until it is fetched.

    Args:
        client_app: the app of all clients.
        clients: number of clients.
        run_config: settings of the app.
        node_configs: settings of each client, as in `run_in_process`.

    Attributes:
        contexts: number of a node → its context.
    """

    def __init__(
        self,
        client_app: ClientApp,
        clients: int,
        run_config: UserConfig,
        node_configs: Sequence[Mapping[str, bool | float | int | str]] = (),
    ) -> None:
        self._app = client_app
        self._run = Run.create_empty(RUN)
        self._ids = map(str, itertools.count(1))
        self._replies: dict[str, Message] = {}
        self.contexts: dict[int, Context] = {}
        for k in range(clients):
            config = dict(node_configs[k]) if k < len(node_configs) else {}
            node = {"partition-id": k, "num-partitions": clients, **config}
            self.contexts[k + 1] = Context(RUN, k + 1, node, RecordDict(), dict(run_config))

    def set_run(self, run: Run) -> None:
        """Sets the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Returns a message to a client."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Returns the numbers of the clients."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Calls the app for each message; returns the numbers of the replies."""
        numbers = []
        for message in messages:
            number = next(self._ids)
            message.metadata.__dict__.update(_message_id=number, _run_id=RUN, _src_node_id=0)
            self._replies[number] = self._answer(message)
            numbers.append(number)
        return numbers

    def _answer(self, message: Message) -> Message:
        try:
            return self._app(message, self.contexts[message.metadata.dst_node_id])
        except Exception as e:
            logging.getLogger("flwr").error("ClientApp raised an exception", exc_info=e)
            return Message(Error(CLIENT_RAISED, type(e).__name__), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Returns the replies that are there."""
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Sends messages and returns the replies."""
        return self.pull_messages(self.push_messages(messages))
