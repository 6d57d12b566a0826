"""Grid that checks replies before a strategy sees them."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from odt.core.storage.reading import reading
from odt.errors import DataError
from odt.federated.checks import MAX_SAMPLES, REFUSED, check_counts, check_update
from odt.federated.flower.record_keys import ARRAYS, CONFIG, METRICS, PARTITION, PAYLOAD, SAMPLES
from odt.federated.flower.records import from_record, to_record
from odt.federated.payloads import broadcast, check_kind, decode
from odt.federated.update import Tensors, Update

EQUAL = "equal-weight"  # metric 1.0 of each reply: the weight of a mean that ignores sample counts


class CheckedGrid(Grid):
    """Passes messages to Flower's grid and replies to the strategy, checked and sorted.

    Messages leave with the tensors as a payload. Replies come back as float32 tensors, sorted by
    partition, so that a mean does not depend on their order of arrival. A reply that breaks a rule
    is left out with a line in the log: names, shapes, dtypes, finite values, counts, the norm
    bound, and one reply for each node. Clients are not trusted with what they report: their metrics
    replace none of the server's, and a partition that two nodes report only orders the replies.

    Attributes:
        refused: lines of the replies that were left out since the last messages.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        payload: str = "float32",
        norm_bound: float | None = None,
        needed: Collection[str] = (),
        weight: str = SAMPLES,
    ) -> None:
        """Wraps a grid.

        Args:
            grid: Flower's grid, or an `InProcessGrid`.
            payload: form of the tensors on their way: float32, float16 or int8.
            norm_bound: largest L2 norm of the difference between a client's tensors and those that
                it was sent; None for no limit.
            needed: metrics that the strategy reads from each reply of training.
            weight: metric by which the strategy weights replies, those of evaluation, too: a number
                above 0.
        """
        self._grid = grid
        self._bound = norm_bound
        self._needed = frozenset(needed)
        self._weight = weight
        self._payload = check_kind(payload)
        self._sent: dict[int, Tensors] = {}  # by node
        self.refused: list[str] = []

    def set_run(self, run: Any) -> None:
        """Sets the run."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """The run."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Returns a message to a node."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Returns the numbers of the nodes that are connected."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Sends messages; returns their numbers."""
        return self._grid.push_messages(self._outgoing(messages))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Returns the replies that are there, checked and sorted."""
        return self._incoming(self._grid.pull_messages(message_ids))

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Sends messages and returns the replies that arrive in time, checked and sorted."""
        messages = self._outgoing(messages)
        if timeout is not None:
            for message in messages:
                message.metadata.ttl = timeout  # a client that was away gets no outdated tensors
        replies = list(self._grid.send_and_receive(messages, timeout=timeout))
        # Errors that the SuperLink answers name the message, but not the node.
        answered = {reply.metadata.reply_to_message_id for reply in replies}
        missing = len(messages) - len(answered)
        if missing:
            log().warning("%d of %d clients did not answer in time.", missing, len(messages))
        return self._incoming(replies)

    def _outgoing(self, messages: Iterable[Message]) -> list[Message]:
        """Replaces tensors by their payload, once for all messages with the same tensors."""
        self.refused = []
        messages = list(messages)
        records = [message.content.array_records[ARRAYS] for message in messages]
        payloads: dict[int, tuple[Tensors, ArrayRecord]] = {}  # by record, all of which are kept
        for message, record in zip(messages, records, strict=True):
            if id(record) not in payloads:
                # Flower's adaptive strategies compute in float64.
                tensors = {n: np.asarray(a.numpy(), np.float32) for n, a in record.items()}
                payloads[id(record)] = tensors, to_record(broadcast(tensors, self._payload))
            self._sent[message.metadata.dst_node_id], payload = payloads[id(record)]
            config = message.content.config_records[CONFIG]  # a strategy may set one for each node
            configs = ConfigRecord({**config, PAYLOAD: self._payload})
            message.content = RecordDict({ARRAYS: payload, CONFIG: configs})
        return messages

    def _incoming(self, replies: Iterable[Message]) -> list[Message]:
        """Leaves out bad replies; returns the others by partition, then those with an error."""
        good: dict[int, Message] = {}  # by node
        partitions: dict[int, int] = {}  # by node
        failed: list[Message] = []
        for reply in replies:
            if reply.has_error():
                failed.append(reply)
                continue
            node = reply.metadata.src_node_id
            try:
                # Whatever is raised while a reply is checked is the fault of that reply.
                with reading(f"node {node}", "must answer what it was sent"):
                    if node in good:
                        raise DataError(f"node {node}: must answer once, but did again. {REFUSED}")
                    partitions[node] = self._check(reply)
                    good[node] = reply
            except DataError as e:
                self.refused.append(str(e))
                log().warning("%s", e)
        _warn_of_shared(partitions)
        order = sorted(good, key=lambda node: (partitions[node], node))
        ordered = [good[node] for node in order]
        _keep_common_metrics(ordered)
        return ordered + failed

    def _check(self, reply: Message) -> int:
        """Checks a reply and replaces its payload by tensors; returns its partition."""
        where = f"node {reply.metadata.src_node_id}"
        content = reply.content
        trained = reply.metadata.message_type == MessageType.TRAIN
        kinds = {ARRAYS, METRICS} if trained else {METRICS}
        if set(content) != kinds or not isinstance(content[METRICS], MetricRecord):
            actual = ", ".join(sorted(map(str, content))) or "none"
            raise DataError(
                f"{where}: the answer must hold {' and '.join(sorted(kinds))}, but got {actual}. "
                f"{REFUSED}"
            )
        metrics = dict(content.metric_records[METRICS])
        partition = metrics.pop(PARTITION, None)
        samples = metrics.pop(SAMPLES, None)
        if type(partition) is not int or partition < 0:
            raise DataError(
                f"{where}: {PARTITION} must be a whole number, but got {partition}. {REFUSED}"
            )
        where = f"client {partition}"
        check_counts(samples, metrics, where)
        metrics.pop(EQUAL, None)  # the server's own
        counts = {SAMPLES: samples, EQUAL: 1.0}
        names = (*self._needed, self._weight) if trained else (self._weight,)
        self._check_metrics(names, {**metrics, **counts}, where)
        arrays = {}
        if trained:
            record = content.array_records.get(ARRAYS)
            if record is None:
                raise DataError(f"{where}: {ARRAYS} must hold tensors, but does not. {REFUSED}")
            sent = self._sent.get(reply.metadata.src_node_id)
            if sent is None:
                raise DataError(f"{where}: must be a node that was sent tensors. {REFUSED}")
            tensors = decode(from_record(record, where), sent, self._payload, where)
            check_update(Update(tensors, samples, metrics), sent, self._bound, where)
            arrays = {ARRAYS: to_record(tensors)}
        reply.content = RecordDict({**arrays, METRICS: MetricRecord({**metrics, **counts})})
        return partition

    def _check_metrics(self, names: Iterable[str], metrics: Mapping[str, Any], where: str) -> None:
        """Raises DataError if the strategy cannot read the metrics, or the weight is invalid."""
        for name in names:
            if name not in metrics:
                raise DataError(f"{where}: must have the metric {name}, but has not. {REFUSED}")
        weight = metrics[self._weight]
        if not 0 < weight <= MAX_SAMPLES:
            raise DataError(
                f"{where}: {self._weight}, the weight of the reply, must be above 0 and at most "
                f"{MAX_SAMPLES}, but got {weight}. {REFUSED}"
            )


def _warn_of_shared(partitions: Mapping[int, int]) -> None:
    """Warns of a partition that several nodes report: by mistake, or one pretends to be another.

    Neither is refused, because nothing shows which is right.

    Args:
        partitions: partition by node.
    """
    nodes_of: dict[int, list[int]] = {}
    for node, partition in partitions.items():
        nodes_of.setdefault(partition, []).append(node)
    for partition, nodes in nodes_of.items():
        if len(nodes) > 1:
            log().warning(
                "partition %d: must be answered by one node, but got answers of %s. All of them "
                "are used.",
                partition,
                " and ".join(map(str, sorted(nodes))),
            )


def _keep_common_metrics(replies: list[Message]) -> None:
    """Removes metrics that a reply lacks, such as an undefined AUC: Flower refuses all replies."""
    records = [reply.content.metric_records[METRICS] for reply in replies]
    for record in records:
        for name in [name for name in record if not all(name in other for other in records)]:
            del record[name]


def log() -> logging.Logger:
    """Flower's logger."""
    return logging.getLogger("flwr")
