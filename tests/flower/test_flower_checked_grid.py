"""Bad answers of a client: one line each, and the others' mean is the model."""

import copy
import logging
import math
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from support.flower_party import by_hand, changed, client_of, run, same, trainer

from odt import federated
from odt.errors import TrainingError
from odt.federated.flower import CheckedGrid, client_app
from odt.federated.flower.in_process import InProcessGrid
from odt.federated.flower.records import to_record
from odt.federated.update import Tensors

BAD = 2  # the client that answers wrongly


def arrays(change: Callable[[dict[str, Any]], Any]) -> Callable[[Message], Message]:
    """Changes the tensors of an answer."""

    def apply(reply: Message) -> Message:
        tensors = {n: a.numpy().copy() for n, a in reply.content.array_records["arrays"].items()}
        made = change(tensors)
        reply.content["arrays"] = to_record(tensors) if made is None else made
        return reply

    return apply


def metrics(**values: Any) -> Callable[[Message], Message]:
    def apply(reply: Message) -> Message:
        for name, value in values.items():
            reply.content.metric_records["metrics"][name.replace("_", "-")] = value
        return reply

    return apply


def put(name: str, at: Any, value: float) -> Callable[[dict[str, Any]], Any]:
    def apply(tensors: dict[str, Any]) -> None:
        tensors[name].flat[at] = value

    return apply


NAMES = list(federated.tensors_of(trainer()))
FIRST = NAMES[0]
HUGE = b"\x93NUMPY\x01\x00v\x00" + (
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
)


def one_array(array: Array) -> Callable[[dict[str, Any]], Any]:
    return lambda tensors: ArrayRecord({**to_record(tensors), FIRST: array})


def add_record(reply: Message) -> Message:
    reply.content["notes"] = ConfigRecord({"text": "hello"})
    return reply


def no_arrays(reply: Message) -> Message:
    reply.content["arrays"] = MetricRecord({"a": 1})
    return reply


def raw_metrics(values: dict[Any, Any]) -> Callable[[Message], Message]:
    """Sets metrics past the checks of Flower's record, which a client need not make."""

    def apply(reply: Message) -> Message:
        reply.content.metric_records["metrics"]._data.update(values)
        return reply

    return apply


def record(name: str | None, value: Any) -> Callable[[Message], Message]:
    """Replaces a record; None removes all."""

    def apply(reply: Message) -> Message:
        if name is None:
            reply.content = RecordDict()
        else:
            reply.content[name] = value
        return reply

    return apply


def header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(4)


def npy(descr: str, count: int, shape: str = "") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape or (count,)}, }}"
    return header(text.ljust(117).encode() + b"\n")[:-4] + bytes(4 * count)


HEADERS = (
    b"{", b"{[]: 1}", b"{None:1,'descr':1,'a':2}", b"", b"\xff" * 20, b"[" * 900,
    b"{'descr':'f4,,','fortran_order':False,'shape':(1,)}",
    b"{'descr':'<f4','fortran_order':False,'shape':(" + b"1," * 65 + b")}",
    b"{'descr':'<f4','fortran_order':False,'shape':(True,)}",
    b"{'descr':'<f4','fortran_order':False,'shape':(" + b"9" * 500 + b",)}",
)  # fmt: skip
CASES: dict[str, tuple[Callable[[Message], Message], str]] = {
    "NaN": (arrays(put(FIRST, 3, math.nan)), f"client 2: {FIRST}: values must be finite"),
    "infinity": (arrays(put(FIRST, 3, -math.inf)), "values must be finite, but got -inf"),
    "shape": (arrays(lambda t: t.update({FIRST: t[FIRST][:-1]})), f"client 2: {FIRST}: must be ("),
    "missing": (arrays(lambda t: t.__delitem__(FIRST)), f"must have the tensor {FIRST}"),
    "more": (arrays(lambda t: t.update({"other": t[FIRST]})), "must have no tensor other"),
    "dtype": (arrays(lambda t: t.update({FIRST: t[FIRST].astype(float)})), "but got float64"),
    "half": (arrays(lambda t: t.update({FIRST: t[FIRST].astype("f2")})), "float32, but got"),
    "cut": (
        arrays(one_array(Array("float32", (3,), "numpy.ndarray", HUGE[:90]))),
        "must be an .npy array",
    ),
    "claims a terabyte": (
        arrays(one_array(Array("float32", (3,), "numpy.ndarray", HUGE))),
        "must hold 4000000000000 bytes",
    ),
    "pickle": (
        arrays(one_array(Array("object", (1,), "pickle", b"cos\nsystem\n(S'x'\ntR."))),
        "must be a NumPy array, but got pickle",
    ),
    "another record": (add_record, "the answer must hold arrays and metrics, but got"),
    "no tensors": (no_arrays, "arrays must hold tensors"),
    "no samples": (
        metrics(num_examples=0),
        "samples must be a whole number above 0, at most 2⁵³, but got 0",
    ),
    "half a sample": (metrics(num_examples=0.5), "samples must be a whole number"),
    "metric": (metrics(loss=math.inf), "metrics must be finite numbers by name, but loss is inf"),
    "list": (metrics(loss=[1.0]), "metrics must be finite numbers by name"),
    "partition": (metrics(partition_id=-1), "partition-id must be a whole number, but got -1"),
    "true partition": (raw_metrics({"partition-id": True}), "partition-id must be a whole number"),
    "text partition": (raw_metrics({"partition-id": "0"}), "partition-id must be a whole number"),
    "no partition": (raw_metrics({"partition-id": None}), "partition-id must be a whole number"),
    "samples below 0": (metrics(num_examples=-5), "samples must be a whole number above 0"),
    "samples NaN": (metrics(num_examples=math.nan), "samples must be a whole number above 0"),
    "many samples": (metrics(num_examples=2**53 + 1), "samples must be a whole number above 0"),
    "true samples": (raw_metrics({"num-examples": True}), "samples must be a whole number above"),
    "huge metric": (raw_metrics({"loss": 10**400}), "metrics must be finite numbers by name"),
    "text metric": (raw_metrics({"loss": "\x1b[31m\n"}), "metrics must be finite numbers by name"),
    "metric by number": (raw_metrics({7: 1.0}), "metrics must be finite numbers by name"),
    "metrics as text": (record("metrics", ConfigRecord({"loss": "1"})), "must hold arrays and"),
    "empty": (record(None, None), "the answer must hold arrays and metrics, but got none"),
    "not native": (
        arrays(one_array(Array("float32", (3,), "numpy.ndarray", npy("'>f4'", 784 * 32)))),
        "must be float32, float16, int8, but got >f4",
    ),
    "objects": (
        arrays(one_array(Array("float32", (3,), "numpy.ndarray", npy("'O'", 784 * 32)))),
        "must be float32, float16, int8, but got object",
    ),
    "negative": (
        arrays(one_array(Array("float32", (3,), "numpy.ndarray", npy("'<f4'", 1, "(-1, -1)")))),
        "must be an .npy array",
    ),
    "no data": (arrays(one_array(Array("float32", (3,), "numpy.ndarray", b""))), "an .npy array"),
    **{
        f"header {k}": (
            arrays(one_array(Array("float32", (1,), "numpy.ndarray", header(text)))),
            "must be an .npy array",
        )
        for k, text in enumerate(HEADERS)
    },
}
# Metrics that may be named but change nothing: each reply keeps the weight that the server gives.
HARMLESS = {
    "equal weight": metrics(equal_weight=1e12),
    "equal weight below 0": metrics(equal_weight=-2.0),
    "equal weight NaN": raw_metrics({"equal-weight": 0.0}),
    "server's names": metrics(server_round=9, payload=1, rounds=0, min_clients=0),
    "same partition": metrics(partition_id=3),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_answer_is_refused_with_one_line(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change, words = CASES[case]
    trained = run(tmp_path, app=changed(client_app(client_of), BAD, change))
    lines = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    refused = [line for line in lines if words in line]
    assert len(refused) == 3, lines
    assert all(line.isprintable() for line in refused)
    assert same(trained, without_it())


@cache
def without_it() -> Tensors:
    return by_hand([0, 1, 3])


@cache
def with_all() -> Tensors:
    return by_hand()


@pytest.mark.parametrize("case", HARMLESS)
@pytest.mark.parametrize("weight", ["num-examples", "equal-weight"])
def test_names_of_the_server_cannot_be_set_by_a_client(
    case: str, weight: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither its weight, nor that of another: nobody is displaced by another's partition."""
    strategy = FedAvg(fraction_evaluate=0.0, weighted_by_key=weight)
    app = changed(client_app(client_of), BAD, HARMLESS[case])
    trained = run(tmp_path, strategy=strategy, app=app)
    wanted = with_all() if weight == "num-examples" else run(tmp_path, strategy=strategy)
    assert same(trained, wanted)
    told = "partition 3: must be answered by one node, but got answers of 3 and 4. All of them"
    assert (told in caplog.text) == (case == "same partition")


@pytest.mark.parametrize("value", [-2.0, 0.0, 1e300, None])
def test_a_weight_that_clients_state_is_checked(
    value: float | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A strategy may take its weights from a metric; one client cannot end the server by it."""

    def state(reply: Message) -> Message:
        found = reply.content.metric_records["metrics"]
        number = int(found["partition-id"])
        if number != BAD:
            found["importance"] = 1.0
        elif value is not None:
            found["importance"] = value
        return reply

    app = client_app(client_of)
    for k in range(4):
        app = changed(app, k, state)
    strategy = FedAvg(fraction_evaluate=0.0, weighted_by_key="importance")
    run(tmp_path, strategy=strategy, app=app)
    rule = "must have the metric importance" if value is None else "must be above 0 and at most"
    assert caplog.text.count(rule) == 3


class AlteredGrid(InProcessGrid):
    """Delivers a change of the replies that were sent."""

    def __init__(self, clients: int, change: Callable[[list[Message]], list[Message]]) -> None:
        super().__init__(client_app(client_of), clients, {})
        self.change = change

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        replies = super().pull_messages(message_ids)
        return self.change(sorted(replies, key=lambda m: m.metadata.src_node_id))


def first_messages(checked: CheckedGrid) -> list[Message]:
    """Returns the messages of a first round, which Flower makes only within a run."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    tensors = to_record(federated.tensors_of(trainer()))
    strategy = FedAvg(fraction_evaluate=0.0)
    return list(strategy.configure_train(1, tensors, ConfigRecord(), checked))


def test_a_second_answer_of_a_node_and_one_of_a_stranger_are_refused() -> None:
    """The grid that carries the messages is not believed either."""

    def add(replies: list[Message]) -> list[Message]:
        stranger, twice = copy.deepcopy(replies[:2])
        stranger.metadata.__dict__["_src_node_id"] = 77
        return [*replies, twice, stranger]

    checked = CheckedGrid(AlteredGrid(4, add))
    good = checked.send_and_receive(first_messages(checked))
    assert [m.metadata.src_node_id for m in good] == [1, 2, 3, 4]
    assert [line.split(":")[0] for line in checked.refused] == ["node 2", "client 0"]


@pytest.mark.parametrize("absent", [0, 1])
def test_answers_that_come_twice_hide_no_client_without_one(
    absent: int, caplog: pytest.LogCaptureFixture
) -> None:
    def change(replies: list[Message]) -> list[Message]:
        error = Message(Error(1), reply_to=replies[1])  # as of the SuperLink, which is no client
        error.metadata.__dict__.update(
            _src_node_id=1, _reply_to_message_id=replies[1].metadata.reply_to_message_id
        )
        return [replies[0], copy.deepcopy(replies[0]), error, *replies[2 : 4 - absent]]

    checked = CheckedGrid(AlteredGrid(4, change))
    checked.send_and_receive(first_messages(checked))
    lines = [record.getMessage() for record in caplog.records]
    late = [line for line in lines if "did not answer in time" in line]
    assert late == ["1 of 4 clients did not answer in time."] * absent


def test_each_client_gets_its_own_configuration_and_the_same_tensors() -> None:
    checked = CheckedGrid(InProcessGrid(client_app(client_of), 3, {}))
    messages = first_messages(checked)
    for message in messages:
        config = ConfigRecord({"learning-rate": 0.1 * message.metadata.dst_node_id})
        message.content = RecordDict({**message.content, "config": config})
    sent = {m.metadata.dst_node_id: m.content for m in checked._outgoing(messages)}
    rates = {n: content.config_records["config"]["learning-rate"] for n, content in sent.items()}
    assert rates == {node: 0.1 * node for node in (1, 2, 3)}
    assert len({id(content.array_records["arrays"]) for content in sent.values()}) == 1


def test_an_update_above_the_norm_bound_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far = changed(client_app(client_of), BAD, arrays(put(FIRST, 0, 1e6)))
    assert same(run(tmp_path, {"norm-bound": 1e3}, app=far), by_hand([0, 1, 3]))
    assert "client 2: the norm of the update must be at most 1000, but got" in caplog.text


def test_a_round_without_a_good_answer_ends_the_federation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = "round 1: must have updates of at least 1 client, but got 0. The model is that of round"
    with pytest.raises(TrainingError, match=line):
        run(tmp_path, {"norm-bound": 1e-9})
    bad = changed(client_app(client_of), BAD, arrays(put(FIRST, 3, math.nan)))
    with pytest.raises(TrainingError, match="at least 4 clients, but got 3") as raised:
        run(tmp_path, {"min-clients": 4}, app=bad)
    with pytest.raises(KeyError) as found:
        dict[str, int]()["a bug"]
    for error, traced in ((raised.value, False), (found.value, True)):
        caplog.clear()
        logging.getLogger("flwr").error("ServerApp raised an exception", exc_info=error)
        assert ("Traceback" in caplog.text) == traced


def test_a_metric_that_one_client_lacks_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def without(reply: Message) -> Message:
        del reply.content.metric_records["metrics"]["accuracy"]
        return reply

    app = changed(client_app(client_of), BAD, without)
    assert same(run(tmp_path, app=app), by_hand())
    assert "round 3 of 3: 4 clients, loss " in caplog.text
    assert "accuracy" not in caplog.text


def test_a_client_checks_what_the_server_sends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tensors: Tensors, kind: str) -> Tensors:
        return {**tensors, FIRST: tensors[FIRST] * np.float32(math.nan)}

    monkeypatch.setattr("odt.federated.flower.checked_grid.broadcast", broken)
    with pytest.raises(TrainingError, match="round 1"):
        run(tmp_path)
    line = f"server: {FIRST}: values must be finite, but got nan. The model is unchanged."
    assert sum(record.getMessage() == line for record in caplog.records) == 4
