"""Loss of differential privacy, by the accountant of dp-accounting."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from odt.arguments import checked_arguments
from odt.core.options.option import Number
from odt.core.recipe.option_values import check_number, check_whole
from odt.errors import MissingPackageError

DELTA = 1e-5
# Clipping norms by which the sum of updates, or n times their mean, changes if there is one client
# more or less, or another in its place: the mean of n moves by up to 2C/n, because a client also
# draws it away from the mean of the others.
SENSITIVITY = 2.0
ABOVE_ZERO = Number("a finite number above 0", open_least=True)
NOISE = Number("a number of at least 0")
SAMPLING_RATE = Number("above 0 and at most 1", most=1, open_least=True)
PROBABILITY = Number("above 0 and below 1", most=1, open_least=True, open_most=True)


@checked_arguments
def privacy_loss(
    rounds: int,
    noise_multiplier: float,
    *,
    sampling_rate: float = 1.0,
    delta: float = DELTA,
    sensitivity: float = SENSITIVITY,
) -> float:
    """Returns ε of the (ε, δ)-differential privacy of a federation.

    Each round is a Gaussian mechanism. The rounds are composed as Rényi differential privacy, and
    the best of its bounds is returned. Two federations are neighbors if they differ in one client,
    which is added, left out or replaced. Between neighbors, the mean of n updates that are clipped
    to norm C differs by up to 2C/n. Needs `pip install 'odt[privacy]'`. Source: Mironov, Rényi
    Differential Privacy (2017); Mironov et al., Rényi Differential Privacy of the Sampled Gaussian
    Mechanism (2019).

    Args:
        rounds: number of rounds.
        noise_multiplier: standard deviation of the noise in the sum of updates, divided by the norm
            to which each update is clipped.
        sampling_rate: probability with which each client takes part in a round. Below 1 the result
            holds only if clients are drawn independently; strategies of Flower draw a fixed number,
            so give 1 for them.
        delta: δ, less than 1 / clients.
        sensitivity: largest change of the sum that one client can cause, in units of the clipping
            norm. 2 for a mean, as above. 1 for a sum with a fixed divisor, if neighbors have one
            client more or less, but no client is replaced.

    Raises:
        OptionError: if an argument is out of range.
        MissingPackageError: if dp-accounting is not installed.
    """
    check_whole("rounds", rounds, 0)
    check_number("sensitivity", sensitivity, ABOVE_ZERO)
    check_number("noise_multiplier", noise_multiplier, NOISE)
    return _loss({noise_multiplier / sensitivity: rounds}, sampling_rate, delta)


def composed_loss(
    noise_multipliers: Sequence[float], *, sampling_rate: float = 1.0, delta: float = DELTA
) -> float:
    """Returns ε of Gaussian mechanisms with noise of different strength.

    Args:
        noise_multipliers: standard deviation of the noise of each mechanism, divided by the
            largest change that one client makes; 0 for none.
        sampling_rate: as in `privacy_loss`.
        delta: as in `privacy_loss`.

    Raises:
        OptionError: if an argument is out of range.
        MissingPackageError: if dp-accounting is not installed.
    """
    return _loss(Counter(noise_multipliers), sampling_rate, delta)


def _loss(noise: Mapping[float, int], sampling_rate: float, delta: float) -> float:
    """Returns ε of Gaussian mechanisms.

    Args:
        noise: noise multiplier → number of mechanisms that have it.
        sampling_rate: as in `privacy_loss`.
        delta: as in `privacy_loss`.
    """
    for multiplier in noise:
        check_number("noise_multiplier", multiplier, NOISE)
    check_number("sampling_rate", sampling_rate, SAMPLING_RATE)
    check_number("delta", delta, PROBABILITY)
    try:
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ModuleNotFoundError:
        raise MissingPackageError(
            "privacy_loss: dp-accounting must be installed, but is not. Install it with "
            "pip install 'odt[privacy]'."
        ) from None
    if not any(noise.values()):
        return 0.0
    if min(noise) == 0:
        return math.inf
    accountant = RdpAccountant()
    for multiplier, count in noise.items():
        event = GaussianDpEvent(multiplier)
        if sampling_rate < 1:
            event = PoissonSampledDpEvent(sampling_rate, event)
        accountant.compose(event, count)
    return float(accountant.get_epsilon(delta))
