"""Random numbers that are a function of seed, epoch and sample, for any order of the samples."""

import numpy as np

WORD = 2**64  # a key of Philox is two words


class SampleRandom:
    """Random generators of samples: Philox (Salmon et al., 2011) with the sample as counter.

    Args:
        seed: seed of the training run.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state
        self._seed = seed % WORD

    def at(self, epoch: int, sample: int, stream: int = 0) -> "np.random.Generator":
        """Returns the generator of a sample in an epoch, which is valid until the next call.

        Args:
            epoch: number of the epoch.
            sample: number of the sample.
            stream: number of an independent sequence of random numbers for the sample.
        """
        state = self._state["state"]  # its arrays are changed in place: a new generator costs more
        state["key"][:] = self._seed, epoch
        state["counter"][:] = 0, sample, stream, 0
        self._bits.state = self._state
        return self._generator
