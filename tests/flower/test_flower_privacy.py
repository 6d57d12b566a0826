"""Loss of differential privacy against formulas and published figures."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    FedMedian,
)
from support.flower_party import CLIENTS, SIZES, run

from odt.errors import OptionError
from odt.federated.flower.checked_grid import EQUAL
from odt.federated.flower.saved_round import SavedRound
from odt.federated.privacy import SENSITIVITY, composed_loss, privacy_loss


def test_one_gaussian_mechanism_is_above_its_exact_loss_and_near() -> None:
    def delta_of(epsilon: float, z: float) -> float:
        """Balle and Wang, Improving the Gaussian Mechanism (2018), theorem 5."""

        def phi(x: float) -> float:
            return math.erfc(-x / math.sqrt(2)) / 2

        a, b = 1 / (2 * z), epsilon * z
        return phi(a - b) - math.exp(epsilon) * phi(-a - b)

    for z in (0.7, 1.0, 2.0, 5.0):
        for sensitivity in (1.0, 2.0):
            epsilon = privacy_loss(1, z, delta=1e-5, sensitivity=sensitivity)
            assert delta_of(epsilon, z / sensitivity) <= 1e-5
            assert delta_of(0.85 * epsilon, z / sensitivity) > 1e-5
        assert privacy_loss(1, z) == privacy_loss(1, z, sensitivity=2.0)
    assert privacy_loss(1, 1.0) > 10.00  # the exact loss of a mean that moves by 2C/n


def test_a_mean_of_clipped_updates_moves_by_twice_the_norm() -> None:
    """Of one client more, less or replaced, and no more: what the default sensitivity counts."""
    rng, n, moves = np.random.default_rng(0), 5, [0.0]
    for trial in range(2000):
        updates = rng.normal(size=(n, 2))
        updates /= np.maximum(np.linalg.norm(updates, axis=1, keepdims=True), 1e-9)
        if trial == 0:  # the worst: all others point the other way
            updates = np.array([[1.0, 0.0]] * (n - 1) + [[-1.0, 0.0]])
        mean = updates.mean(axis=0)
        other = np.array([*updates[:-1], -updates[-1]]).mean(axis=0)
        moves += [float(np.linalg.norm(mean - m)) for m in (other, updates[:-1].mean(axis=0))]
    assert max(moves) * n == pytest.approx(SENSITIVITY)
    total = updates.sum(axis=0)
    left, replaced = updates[:-1].sum(axis=0), total - 2 * updates[-1]
    assert np.linalg.norm(total - left) == pytest.approx(1)  # what sensitivity 1 counts
    assert np.linalg.norm(total - replaced) == pytest.approx(2)


def test_rounds_compose_as_in_the_formula_of_renyi_privacy() -> None:
    # Mironov (2017), proposition 3: ε(δ) ≤ min over α of T α / 2σ² + log(1/δ) / (α - 1).
    orders = np.linspace(1.01, 100, 5000)
    bound = (50 * orders / (2 * 4.0**2) + math.log(1e5) / (orders - 1)).min()
    assert 0.85 * bound < privacy_loss(50, 4.0, delta=1e-5, sensitivity=1.0) <= bound
    assert composed_loss([4.0] * 50) == pytest.approx(privacy_loss(50, 8.0))
    # k² rounds with k times the noise; a list of so many rounds would take 40 GB.
    assert privacy_loss(50 * 10**8, 8.0 * 10**4) == pytest.approx(privacy_loss(50, 8.0))
    assert privacy_loss(0, 1.0) == 0
    assert composed_loss([1.0, 0.0]) == math.inf


def test_sampling_amplifies_as_published() -> None:
    # McMahan et al., A General Approach to Adding Differential Privacy (2018), and the tutorial of
    # TensorFlow Privacy: 60,000 samples in batches of 256, noise 1.1, 60 epochs: ε = 2.6 to 3.0.
    steps, noise = 60 * 60_000 // 256, {"noise_multiplier": 1.1, "delta": 1e-5, "sensitivity": 1.0}
    epsilon = privacy_loss(steps, sampling_rate=256 / 60_000, **noise)
    assert 2.5 < epsilon < 3.01
    assert epsilon < privacy_loss(steps, **noise) / 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier=.: must be a number of at least 0"),
        ({"sampling_rate": 0.0}, "sampling_rate=.: must be above 0"),
        ({"delta": 1.0}, "delta=.: must be above 0 and below 1"),
        ({"rounds": -1}, "rounds=.: must be"),
        ({"sensitivity": 0.0}, "sensitivity=.: must be a finite number above 0"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        privacy_loss(**{"rounds": 1, "noise_multiplier": 1.0, **arguments})


def fixed(inner: Any, kind: Any = DifferentialPrivacyServerSideFixedClipping) -> Any:
    return kind(inner, noise_multiplier=2.0, clipping_norm=0.5, num_sampled_clients=CLIENTS)


def epsilons(text: str) -> list[float]:
    words = text.split("epsilon ")[1:]
    return [float(word.split(" at delta 0.001")[0]) for word in words]


def test_the_log_has_the_loss_after_each_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    equal = FedAvg(fraction_evaluate=0.0, weighted_by_key=EQUAL)
    run(tmp_path, strategy=fixed(equal), delta=1e-3)
    wanted = [privacy_loss(number, 2.0, delta=1e-3) for number in (1, 2, 3)]
    assert epsilons(caplog.text) == [round(epsilon, 2) for epsilon in wanted]
    assert caplog.text.count(" at delta 0.001 for one client more, less or replaced") == 3


def test_a_client_with_more_samples_is_hidden_less(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, strategy=fixed(FedAvg(fraction_evaluate=0.0)), delta=1e-3)
    share = max(SIZES) / sum(SIZES)
    wanted = privacy_loss(3, 2.0 / (CLIENTS * share), delta=1e-3)
    assert epsilons(caplog.text)[-1] == round(wanted, 2) > privacy_loss(3, 2.0, delta=1e-3)


def test_a_stopped_server_remembers_the_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def strategy() -> Any:
        return fixed(FedAvg(fraction_evaluate=0.0))

    state = str(tmp_path / "state")
    run(tmp_path, strategy=strategy(), rounds=2, state=state, delta=1e-3)
    run(tmp_path, strategy=strategy(), rounds=3, state=state, delta=1e-3)
    stopped = epsilons(caplog.text)
    caplog.clear()
    run(tmp_path, strategy=strategy(), delta=1e-3)
    assert epsilons(caplog.text) == stopped


def test_adaptive_clipping_pays_for_its_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(fraction_evaluate=0.0, weighted_by_key=EQUAL),
        noise_multiplier=1.0,
        num_sampled_clients=CLIENTS,
        clipped_count_stddev=3.0,
    )
    run(tmp_path, strategy=strategy, delta=1e-3, rounds=1)
    (epsilon,) = epsilons(caplog.text)
    assert epsilon > privacy_loss(1, strategy.noise_multiplier, delta=1e-3)


@pytest.mark.parametrize("old", [False, True])
def test_the_loss_of_an_earlier_state_is_counted_again(old: bool, tmp_path: Path) -> None:
    """Files of earlier versions have noise for half of what one client changes."""
    tensors = {"w": np.ones(2, np.float32)}
    path = tmp_path / "state"
    SavedRound(1, tensors, {}, noise=(1.0,)).write(str(path))
    if old:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        del header["sensitivity"]
        with path.open("wb") as out:
            np.savez(out, **{**arrays, "header": np.array(json.dumps(header))})
    assert SavedRound.read(str(path), tensors).noise == ((0.5,) if old else (1.0,))


def test_no_loss_is_stated_for_a_strategy_that_is_no_mean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, strategy=fixed(FedMedian(fraction_evaluate=0.0)), rounds=1)
    assert "epsilon inf" in caplog.text
