"""Flower's apps in one process train the bits that odt.federated trains."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedTrimmedAvg, Krum
from support.flower_party import CLIENTS, ROUNDS, by_hand, client_of, run, same, trainer

from odt import federated
from odt.errors import TrainingError
from odt.federated.flower import CheckedGrid, client_app, run_in_process
from odt.federated.flower.checked_grid import EQUAL
from odt.federated.flower.in_process import InProcessGrid


@pytest.mark.parametrize("payload", federated.PAYLOADS)
def test_fedavg_gives_the_same_bits_as_without_flower(payload: str, tmp_path: Path) -> None:
    assert same(run(tmp_path, payload=payload), by_hand(payload=payload))


def test_the_order_of_arrival_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = InProcessGrid.pull_messages

    def backwards(self: InProcessGrid, ids: Iterable[str]) -> list[Message]:
        return sorted(pull(self, ids), key=lambda m: -m.metadata.src_node_id)

    monkeypatch.setattr(InProcessGrid, "pull_messages", backwards)
    assert same(run(tmp_path), by_hand())


@pytest.mark.parametrize("strategy", [FedAdam, FedMedian, FedTrimmedAvg, Krum])
def test_strategies_of_flower_train(strategy: Any, tmp_path: Path) -> None:
    trained, begin = run(tmp_path, strategy=strategy()), federated.tensors_of(trainer())
    assert list(trained) == list(begin)
    assert all((trained[name] != a).any() for name, a in begin.items())


@pytest.mark.parametrize("payload", federated.PAYLOADS)
def test_a_server_of_ones_own_can_use_the_checks_alone(payload: str) -> None:
    results: list[Any] = []
    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        checked = CheckedGrid(grid, payload=payload)
        arrays = ArrayRecord({n: Array(a) for n, a in federated.tensors_of(trainer()).items()})
        results.append(FedAvg().start(checked, arrays, num_rounds=ROUNDS))

    run_in_process(app, client_app(client_of), CLIENTS)
    (result,) = results
    assert same({n: a.numpy() for n, a in result.arrays.items()}, by_hand(payload=payload))
    assert set(result.evaluate_metrics_clientapp[ROUNDS]) == {"loss", "accuracy", EQUAL}


def test_only_tensors_counts_and_metrics_leave_a_client(tmp_path: Path) -> None:
    inner, answers = client_app(client_of), []
    app = ClientApp()

    @app.train()
    @app.evaluate()
    def answer(message: Any, context: Any) -> Any:
        reply = inner(message, context)
        answers.append(list(reply.content.values()))
        return reply

    run(tmp_path, strategy=FedAvg(), app=app, payload="int8")
    assert len(answers) == 2 * CLIENTS * ROUNDS
    names = {*federated.tensors_of(trainer()), "#scales"}
    for records in answers:
        for record in records:
            if isinstance(record, ArrayRecord):
                assert set(record) == names
                assert all(type(array) is Array for array in record.values())
            else:
                assert type(record) is MetricRecord
                assert set(record) == {"num-examples", "partition-id", "loss", "accuracy"}


def test_the_server_learns_only_the_kind_of_a_clients_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def without_data(context: Any) -> federated.Client:
        return federated.Client(trainer(), str(tmp_path / "private" / "name.npy"))

    replies: list[Any] = []

    def remember(message: Any, context: Any) -> Any:
        replies.append(client_app(without_data)(message, context))
        return replies[-1]

    app = ClientApp()
    app.train()(remember)
    with pytest.raises(TrainingError, match="round 1"):
        run(tmp_path, app=app)
    assert {reply.error.reason for reply in replies} == {"DataError; see the client's log"}
