"""A federation whose server stopped goes on from its state file."""

import json
import math
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    Strategy,
)
from support.flower_party import CLIENTS, by_hand, client_of, run, same, trainer

from odt import federated
from odt.errors import OdtError
from odt.federated.flower import client_app
from odt.federated.flower.saved_round import SavedRound, saved_round


class PowerCutError(Exception):
    """In place of a power cut."""


def adaptive() -> Strategy:
    # without noise, which is not seeded; the norm that it clips to still changes each round
    return DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(fraction_evaluate=0.0),
        noise_multiplier=0.0,
        num_sampled_clients=CLIENTS,
        initial_clipping_norm=0.5,
        clipped_count_stddev=0.0,
    )


def momentum() -> Strategy:
    return FedAvgM(fraction_evaluate=0.0, server_momentum=0.9)


@pytest.mark.parametrize("strategy", [FedAvg, FedAdam, FedYogi, momentum, adaptive])
def test_a_stopped_federation_trains_the_same_bits(
    strategy: Callable[[], Strategy], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(tmp_path, strategy=strategy())

    class Stops:
        """A strategy that the power cut stops in round 2, after it has the replies."""

        def __new__(cls) -> Any:
            made: Any = strategy()
            aggregate = made.aggregate_train

            def cut(number: int, replies: Any) -> Any:
                if number == 2:
                    raise PowerCutError
                return aggregate(number, replies)

            made.aggregate_train = cut
            return made

    state = str(tmp_path / "state")
    with pytest.raises(PowerCutError):
        run(tmp_path, strategy=Stops(), state=state)
    assert same(run(tmp_path, strategy=strategy(), state=state), whole)
    assert f"{state}: resumes after round 1 of 3." in caplog.text
    assert same(run(tmp_path, strategy=strategy(), state=state), whole)
    assert "resumes after round 3 of 3." in caplog.text


def test_more_rounds_go_on_after_the_last(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    run(tmp_path, rounds=1, state=state)
    assert same(run(tmp_path, rounds=3, state=state), by_hand())


def test_other_settings_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = str(tmp_path / "state")
    run(tmp_path, {"learning-rate": 0.1}, rounds=1, state=state)
    run(tmp_path, {"learning-rate": 0.05}, rounds=2, state=state)
    lines = [record.getMessage() for record in caplog.records]
    assert f"{state}: learning-rate was 0.1, and is 0.05." in lines
    run(tmp_path, {}, rounds=3, state=state)
    run(tmp_path, {"learning-rate": 0.05}, rounds=4, state=state)
    lines = [record.getMessage() for record in caplog.records]
    assert f"{state}: learning-rate was 0.05, and is left out." in lines
    assert f"{state}: learning-rate was left out, and is 0.05." in lines


def test_a_state_that_cannot_be_used_is_refused_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "state"
    tensors = federated.tensors_of(trainer())
    first = next(iter(tensors))
    saved_round(1, tensors, FedAvg()).write(str(path))
    good = path.read_bytes()
    other = {**tensors, first: tensors[first] * np.float32("nan")}
    SavedRound(1, other, {}).write(str(path))
    for content in (path.read_bytes(), b"", b"PK", good[: len(good) // 2], b"x" * 99):
        path.write_bytes(content)
        with pytest.raises(OdtError) as caught:
            run(tmp_path, state=str(path))
        line = str(caught.value)
        assert line.startswith(f"{path}: ")
        assert re.search("[Dd]elete (the file|it) to begin with round 1", line)
        assert "\n" not in line


def test_what_rounding_left_over_stays_with_the_client(tmp_path: Path) -> None:
    contexts: dict[int, Any] = {}

    def remember(context: Any) -> Any:
        contexts[context.node_id] = context
        return client_of(context)

    run(tmp_path, app=client_app(remember), payload="int8")
    assert len(contexts) == CLIENTS
    for context in contexts.values():
        assert list(context.state) == ["odt-residual"]


def npz(path: Path, **changes: Any) -> None:
    """Writes a state as SavedRound does, with another header and other arrays."""
    header: dict[str, Any] = {
        "round": 1,
        "accountant": None,
        "noise": [],
        "settings": {},
        "sensitivity": 2.0,
    }
    arrays = {f"tensor:{n}": a for n, a in federated.tensors_of(trainer()).items()}
    named = {k: changes.pop(k) for k in list(changes) if isinstance(changes[k], np.ndarray)}
    text = np.array(json.dumps(header | changes))
    with path.open("wb") as file:
        np.savez_compressed(file, **{"header": text, **arrays, **named})


@pytest.mark.parametrize(
    "changes",
    [
        {"round": -5},
        {"round": 1.5},
        {"round": 10**30},
        {"noise": [math.nan]},
        {"noise": [-1.0]},
        {"noise": [math.inf]},
        {"noise": 7},
        {"settings": [1]},
        {"strategy:0:m_t:x": np.ones(3)},
        {"bomb": np.zeros(2**28 + 1, np.float32)},
    ],
    ids=str,
)
def test_a_twisted_state_is_one_line_in_little_memory(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "state"
    npz(path, **changes)
    changes.clear()
    tracemalloc.start()
    with pytest.raises(OdtError, match="must "):
        run(tmp_path, state=str(path), strategy=FedAdam(fraction_evaluate=0.0))
    assert tracemalloc.get_traced_memory()[1] < 2e8
    tracemalloc.stop()
