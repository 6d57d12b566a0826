"""Random masks of dropout, which depend on seed, step and sample alone.

Value i of sample j of a step has number k = j · I + i, where I is the number of values of a sample
and j counts the samples of the step. Its u is the k-th float32 of a generator Philox-4x64-10 with
key (seed, weight) and counter (0, 0, use, step). The generator can begin at any k, so that masks
are the same for any micro-batch, number of workers and after a resume. Source: Salmon et al.,
*Parallel Random Numbers: As Easy as 1, 2, 3* (2011), as in NumPy.
"""

import numpy as np

from odt.core.runtime.program import Program
from odt.kernels.rows.opdef import Array

BLOCK = 8  # float32 values for each value of the counter


def fill_masks(program: Program, seed: int, step: int, first: int, count: int) -> None:
    """Fills the masks of a program.

    Args:
        program: the program.
        seed: random seed, 0 or more.
        step: number of the update; 1 is the first.
        first: position in the step of the program's first sample.
        count: number of samples.
    """
    for mask, array in zip(program.plan.masks, program.masks, strict=True):
        values = array.reshape(-1, copy=False)
        start = values.size // count * first
        key, counter = (seed, mask.weight), (start // BLOCK, 0, mask.use, step)
        draw_mask(values, key, counter, start % BLOCK, mask.rate)


def draw_mask(
    values: Array, key: tuple[int, int], counter: tuple[int, int, int, int], skip: int, rate: float
) -> None:
    """Draws a mask in place.

    Args:
        values: float32 (n,).
        key, counter: of the generator.
        skip: values of the generator to leave out.
        rate: probability of a zero.
    """
    words = (np.array([n % 2**64 for n in each], np.uint64) for each in (key, counter))
    rng = np.random.Generator(np.random.Philox(key=next(words), counter=next(words)))
    rng.random(skip, np.float32)
    rng.random(out=values, dtype=np.float32)
    keep = np.float32(1 - rate)
    values += keep
    np.floor(values, out=values)
    values *= 1 / keep
