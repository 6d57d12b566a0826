"""`simulate`: rounds, sampling, refusals, resume and what a history holds."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odt
from odt import federated
from odt.core.checkpoints import checkpoint
from odt.federated.checks import distance
from odt.federated.client import Client, round_seed
from odt.federated.federation import weighted_metrics
from odt.federated.history import write_log
from odt.federated.strategies.strategy_text import STRATEGIES
from odt.federated.update import Tensors, Update

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(3, 8))
LABELS = RNG.integers(0, 3, 240)
X = (CENTERS[LABELS] + RNG.normal(0, 0.8, (240, 8))).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[LABELS]
HELD = slice(180, None)
MODEL = odt.new_model("mlp", like=(X, Y), hidden=(6,), seed=1)


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(MODEL, **{"batch_size": 8, "metrics": ["accuracy"], **options})


def simulate(used: odt.Trainer | None = None, **options: Any) -> federated.History:
    options = {"clients": 4, "rounds": 3, "validation_data": (X[HELD], Y[HELD]), **options}
    with used or trainer() as one:
        return federated.simulate(one, X[:180], Y[:180], **options)


def same(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


def test_fedavg_averages_what_the_clients_train_alone() -> None:
    with trainer() as used:
        history = simulate(used, rounds=2, decay="none")
        begin = federated.tensors_of(trainer())
    parts: Any = [np.sort(p) for p in np.array_split(_order(180), 4)]
    tensors = begin
    for number in (1, 2):
        updates: list[Update] = []
        for k in reversed(range(4)):  # any order gives the same bits
            with trainer() as own:
                client = Client(own, X[:180], Y[:180], samples=parts[k], partition=k)
                updates.insert(0, client.train(tensors, number))
        tensors = federated.FedAvg().aggregate(number, tensors, updates)
    assert same(history.tensors, tensors)
    assert history.clients == (45, 45, 45, 45)


def _order(samples: int) -> Any:
    return np.random.default_rng((0, 0, 2**31)).permutation(samples)


def test_a_history_holds_losses_metrics_counts_and_bytes() -> None:
    seen: list[int] = []
    history = simulate(client_validation=0.2, on_round=lambda r: seen.append(r.round))
    assert seen == [0, 1, 2, 3]
    nbytes = sum(a.nbytes for a in history.tensors.values())
    for r in history.rounds[1:]:
        assert (r.sampled, r.trained, r.refused, r.samples) == (4, 4, (), 144)
        assert r.bytes_up == r.bytes_down == 4 * nbytes
        assert set(r.metrics) == {
            f"{kind}{name}" for kind in ("", "val_", "client_") for name in ("loss", "accuracy")
        } | {"client_max_loss", "client_min_accuracy"}
        assert r.metrics["client_min_accuracy"] <= r.metrics["client_accuracy"]
        assert r.metrics["client_max_loss"] >= r.metrics["client_loss"]
    assert len(history.of("val_loss")) == 4
    assert history.of("val_loss")[-1] < history.of("val_loss")[0]
    with trainer() as used:
        federated.load_tensors(used, history.tensors)
        assert used.evaluate(X[HELD], Y[HELD])["loss"] == history.of("val_loss")[-1]


def test_a_metric_that_the_first_client_lacks_is_that_of_the_others() -> None:
    partition = np.arange(180) % 2 + 1
    partition[LABELS[:180] == 0] = 0  # client 0 has one class, on which AUC is undefined
    with trainer(metrics=["auc"]) as used:
        history = simulate(used, clients=3, partition=partition, rounds=0, client_validation=0.29)
        logs = history.rounds[0].metrics
    assert {"client_loss", "client_auc", "client_min_auc"} <= logs.keys()
    assert logs["client_min_auc"] <= logs["client_auc"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_federation_leaves_nothing_but_tensors(fails: bool) -> None:
    """After it, `fit` and steps compute what a new trainer computes with the same tensors."""

    def losses(used: odt.Trainer) -> list[float]:
        steps = [used.train_on_batch(X[:8], Y[:8])["loss"] for _ in range(2)]
        history = used.fit(X[:64], Y[:64], epochs=3, patience=9)
        return steps + history.history["loss"]

    def stop(result: federated.Round) -> None:
        if fails and result.round:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"dropout": 0.5, "keep_best": True, "monitor": "loss"}
    with trainer(**options) as used, trainer(**options) as new:
        try:
            federated.simulate(
                used, X, Y, strategy="fedprox:mu=5", rounds=2, epochs=2, on_round=stop
            )
        except KeyboardInterrupt:
            assert fails
        federated.load_tensors(new, federated.tensors_of(used))
        assert losses(used) == losses(new)
        assert same(federated.tensors_of(used), federated.tensors_of(new))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_learns(strategy: str) -> None:
    even = strategy in ("fedmedian", "trimmed_mean", "krum")  # outliers are what they leave out
    partition = "iid" if even else "dirichlet:0.3"
    used = trainer(learning_rate=0.01)
    history = simulate(used, strategy=strategy, partition=partition, rounds=6, seed=3)
    accuracy = history.of("val_accuracy")
    assert max(accuracy) > accuracy[0] + 0.1


def test_the_state_of_a_strategy_is_cleared() -> None:
    strategy = federated.FedAdam()
    losses = [simulate(strategy=strategy, rounds=1).of("val_loss") for _ in range(2)]
    assert losses[0] == losses[1]


def test_fedprox_keeps_clients_near_the_server() -> None:
    def moved(mu: float) -> float:
        begin = federated.tensors_of(trainer())
        with trainer(optimizer="sgd", learning_rate=0.1) as used:
            simulate(used, strategy=f"fedprox:mu={mu}", rounds=1, epochs=5)
            return distance(federated.tensors_of(used), begin)

    assert moved(1.0) < 0.8 * moved(0.0)


def test_the_proximal_term_is_that_of_its_formula() -> None:
    """SGD on batches of all samples: w ← w − η (g(w) + μ (w − w₀)), with g from another trainer."""
    rate, mu = 0.1, 0.5
    with trainer(optimizer="sgd", learning_rate=rate, batch_size=64) as used:
        client = Client(used, X[:64], Y[:64], epochs=3)
        used.session.build().parameters.proximal_mu = mu
        begin = client.tensors
        update = client.train(begin, 1)
    with trainer(batch_size=64) as other:
        w = {n: a.astype(np.float64) for n, a in begin.items()}
        for _ in range(3):
            federated.load_tensors(other, {n: a.astype(np.float32) for n, a in w.items()})
            other.forward_backward(X[:64], Y[:64])
            w = {n: a - rate * (other.gradients[n] + mu * (a - begin[n])) for n, a in w.items()}
            other.apply_gradients()  # clears them
    for n, a in w.items():
        np.testing.assert_allclose(update.tensors[n], a, atol=2e-6)


@pytest.mark.parametrize("payload", ["float16", "int8"])
def test_small_payloads_learn_as_well(payload: str) -> None:
    exact, small = simulate(rounds=6), simulate(rounds=6, payload=payload)
    assert small.of("val_loss")[-1] == pytest.approx(exact.of("val_loss")[-1], rel=0.03)
    few, many = small.rounds[1], exact.rounds[1]
    assert few.bytes_up < {"float16": 0.51, "int8": 0.35}[payload] * many.bytes_up
    assert few.bytes_down == many.bytes_down / 2


def test_a_fraction_of_the_clients_is_sampled_and_some_drop_out() -> None:
    history = simulate(clients=20, fraction=0.5, offline=0.3, rounds=12)
    rounds = history.rounds[1:]
    assert {r.sampled for r in rounds} == {10}
    trained = sum(r.trained for r in rounds)
    assert 0.5 < trained / 120 < 0.9
    assert len({r.trained for r in rounds}) > 1
    assert all(r.bytes_down * r.trained == r.bytes_up * r.sampled for r in rounds)


class Bad(Client):
    """Clients of which client 1 answers as `answer` says in round 2."""

    answer: Any = None

    def train(self, tensors: Tensors, round: int) -> Update:
        update = super().train(tensors, round)
        return type(self).answer(update) if (self.partition, round) == (1, 2) else update


def changed(update: Update, change: Any) -> Update:
    return Update({n: change(a) for n, a in update.tensors.items()}, update.samples, {})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda u: changed(u, lambda a: a * np.float32("nan")), "values must be finite"),
        (lambda u: changed(u, lambda a: a[1:]), r"must be \(.*but got"),
        (lambda u: changed(u, lambda a: a + 100), "norm of the update must be at most 9"),
        (lambda u: Update(u.tensors, 0, {}), "samples must be a whole number above 0"),
    ],
)
def test_a_bad_update_is_refused_and_the_round_goes_on(
    answer: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odt.federated.federation.Client", Bad)
    Bad.answer = staticmethod(answer)
    with pytest.warns(odt.OdtWarning, match=f"round 2: client 1: .*{message}"):
        history = simulate(norm_bound=9.0)
    assert [r.trained for r in history.rounds] == [0, 4, 3, 4]
    assert history.rounds[2].samples == 135
    assert len(history.rounds[2].refused) == 1
    assert history.of("val_loss")[3] < history.of("val_loss")[0]


def test_a_refused_update_leaves_no_error_feedback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training goes on as if the client had failed before it made its payload."""

    def fail(update: Update) -> Update:
        raise odt.TrainingError("the loss must be finite.")

    monkeypatch.setattr("odt.federated.federation.Client", Bad)
    histories = []
    for answer in (fail, lambda u: changed(u, lambda a: a + 100)):
        Bad.answer = staticmethod(answer)
        with pytest.warns(odt.OdtWarning, match="round 2: client 1: "):
            histories.append(simulate(norm_bound=9.0, payload="int8"))
    assert same(histories[0].tensors, histories[1].tensors)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_tensors_that_cannot_be_evaluated_leave_the_previous_model() -> None:
    strategy = federated.FedAdam(eta=3e38)
    with trainer() as used, trainer() as new:
        begin = federated.tensors_of(new)
        with pytest.raises(
            odt.TrainingError, match=r"^round 1: .* The model is that of round 0\.$"
        ):
            simulate(used, strategy=strategy)
        assert same(federated.tensors_of(used), begin)
    assert not strategy.state


def test_a_metric_is_weighted_by_the_samples_of_those_that_report_it() -> None:
    updates = [Update({}, 1, {"loss": 1.0}), Update({}, 3, {"loss": 2.0, "auc": 0.5})]
    assert weighted_metrics(updates) == {"loss": 1.75, "auc": 0.5}


def test_samples_that_are_held_back_do_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, evaluated = dict[int, Any](), dict[int, Any]()

    class Seen(Client):
        def train(self, tensors: Tensors, round: int) -> Update:
            trained[self.partition] = self.samples
            return super().train(tensors, round)

        def evaluate(self, tensors: Tensors) -> Any:
            evaluated[self.partition] = self.samples
            return super().evaluate(tensors)

    monkeypatch.setattr("odt.federated.federation.Client", Seen)
    simulate(client_validation=0.2, rounds=1)
    for k in range(4):
        assert (len(trained[k]), len(evaluated[k])) == (36, 9)
    whole = np.concatenate([*trained.values(), *evaluated.values()])
    assert sorted(whole) == list(range(180))


def test_too_few_updates_raise_and_leave_the_previous_model(tmp_path: Path) -> None:
    file = tmp_path / "fed.odt"
    with trainer() as used:
        with (
            pytest.warns(odt.OdtWarning, match="norm of the update"),
            pytest.raises(
                odt.TrainingError, match=r"round 1: must have .* at least 3 of 4.* got 0"
            ),
        ):
            simulate(used, min_clients=3, norm_bound=1e-6, save_to=file)
        assert same(federated.tensors_of(used), federated.tensors_of(trainer()))
    assert not file.exists()


def stop_after(number: int, **options: Any) -> None:
    with trainer() as used:

        def stop(result: federated.Round) -> None:
            used.stop_training = result.round == number

        history = simulate(used, on_round=stop, **options)
    assert history.rounds[-1].round == number


@pytest.mark.parametrize("strategy", ["fedavg", "fedadam:eta=0.01"])
@pytest.mark.parametrize("payload", ["float32", "int8"])
def test_a_resumed_federation_gives_the_same_bits(
    strategy: str, payload: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"strategy": strategy, "payload": payload, "fraction": 0.5}
    options |= {"offline": 0.2, "min_clients": 1, "rounds": 6, "partition": "dirichlet:1"}
    whole = simulate(**options, log=tmp_path / "whole.csv")
    file, log = tmp_path / "fed.odt", tmp_path / "log.csv"
    stop_after(3, **options, save_to=file, log=log)
    resumed = simulate(**options, checkpoint=file, save_to=file, log=log)
    assert same(whole.tensors, resumed.tensors)
    assert whole.rounds == resumed.rounds
    assert log.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    for name, value, then in (("seed", 7, "0"), ("partition", "iid", "dirichlet:1")):
        with pytest.raises(odt.OptionError, match=f"with {name} {then}, but got {value}"):
            simulate(**{**options, name: value}, checkpoint=file)


def test_checkpoints_of_other_models_and_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "fed.odt"
    simulate(rounds=1, decay="none", save_to=file)
    other = odt.new_model("mlp", like=(X, Y), hidden=(7,))
    with pytest.raises(odt.DataError, match=r"must be .* float32, but got .* is unchanged"):
        simulate(odt.Trainer(other, batch_size=8), decay="none", checkpoint=file)
    with trainer() as plain:
        plain.save_checkpoint(tmp_path / "plain.odt")
    with pytest.raises(odt.ModelError, match="must be a checkpoint of a federation"):
        simulate(checkpoint=tmp_path / "plain.odt")
    with pytest.raises(odt.OptionError, match=r"`save_to=`: must end in .odt"):
        simulate(save_to=tmp_path / "fed.npz")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("federation", "[1]"),
        ("federation", "nothing"),
        ("federation", "{}"),
        ("rounds", "[]"),
        ("rounds", "[3]"),
        ("rounds", '[{"round": 1}]'),
        ("rounds", '{"round": 1}'),
    ],
)
def test_damaged_properties_are_refused_in_one_line(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "fed.odt"
    simulate(rounds=1, save_to=file)
    state = checkpoint.decode(file.read_bytes(), "fed.odt")
    damaged = replace(state, properties={**state.properties, name: text})
    file.write_bytes(b"".join(checkpoint.encode(damaged)))
    with pytest.raises(odt.OdtError) as error:
        simulate(rounds=1, checkpoint=file)
    assert len(str(error.value).splitlines()) == 1
    assert "must" in str(error.value)


def test_logs_are_csv_or_json_lines(tmp_path: Path) -> None:
    history = simulate(log=tmp_path / "log.csv")
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == ["0", "1", "2", "3"]
    assert float(rows[3]["val_loss"]) == history.of("val_loss")[3]
    assert rows[0]["loss"] == ""
    write_log(history.rounds, tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[3]["bytes_up"] == int(rows[3]["bytes_up"]) > 0
    with pytest.raises(odt.OptionError, match=r"`log=`: must end in .csv or .jsonl"):
        simulate(log=tmp_path / "log.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "`clients=`: must be a whole number of at least 1"),
        ({"fraction": 0.0}, "`fraction=`: must be above 0 and at most 1, but got 0.0"),
        ({"offline": 1.0}, "`offline=`: must be at least 0 and below 1"),
        ({"min_clients": 3, "fraction": 0.5}, "`min_clients=`: must be at most 2"),
        ({"norm_bound": float("nan")}, "`norm_bound=`: must be a number above 0"),
        ({"payload": "int4"}, "`payload=`: must be one of `float32`, `float16`, `int8`"),
        ({"rounds": -1}, "`rounds=`: must be a whole number of at least 0"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(odt.OptionError, match=message):
        simulate(**options)


def test_seeds_differ_by_round_and_client() -> None:
    seeds = {round_seed(s, r, p) for s in (0, 1) for r in range(1, 20) for p in range(20)}
    assert len(seeds) == 2 * 19 * 20
