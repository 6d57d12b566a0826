"""Bad answers of a client: one line each, and the others' mean is the model."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from support.flower_party import by_hand, changed, client_of, run, same, trainer

from odt import federated
from odt.errors import TrainingError
from odt.federated.flower import client_app
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
    "no samples": (metrics(num_examples=0), "samples must be a whole number above 0, but got 0"),
    "half a sample": (metrics(num_examples=0.5), "samples must be a whole number"),
    "metric": (metrics(loss=math.inf), "metrics must be finite numbers by name, but loss is inf"),
    "list": (metrics(loss=[1.0]), "metrics must be finite numbers by name"),
    "partition": (metrics(partition_id=-1), "partition-id must be a whole number, but got -1"),
    "same partition": (metrics(partition_id=3), "partition 3: must be answered by one node"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_answer_is_refused_with_one_line(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change, words = CASES[case]
    # of two answers for one partition the first that arrives stays
    kept = [k for k in range(4) if k != (3 if case == "same partition" else BAD)]
    wanted = by_hand(kept) if case != "same partition" else None
    trained = run(tmp_path, app=changed(client_app(client_of), BAD, change))
    lines = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    refused = [line for line in lines if words in line]
    assert len(refused) == 3, lines
    assert not any("\n" in line for line in refused)
    if wanted is not None:
        assert same(trained, wanted)


def test_an_update_above_the_norm_bound_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far = changed(client_app(client_of), BAD, arrays(put(FIRST, 0, 1e6)))
    assert same(run(tmp_path, {"norm-bound": 1e3}, app=far), by_hand([0, 1, 3]))
    assert "client 2: the norm of the update must be at most 1000, but got" in caplog.text


def test_a_round_without_a_good_answer_ends_the_federation(tmp_path: Path) -> None:
    line = "round 1: must have updates of at least 1 clients, but got 0. The model is that of round"
    with pytest.raises(TrainingError, match=line):
        run(tmp_path, {"norm-bound": 1e-9})
    bad = changed(client_app(client_of), BAD, arrays(put(FIRST, 3, math.nan)))
    with pytest.raises(TrainingError, match="at least 4 clients, but got 3"):
        run(tmp_path, {"min-clients": 4}, app=bad)


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
