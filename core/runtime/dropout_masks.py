"""Random masks of dropout, which depend on seed, step and sample alone.

Value i of sample j of a step has number k = j · I + i, where I is the number of values of a sample
and j counts the samples of the step. Its u is the k-th float32 of a generator Philox-4x64-10 with
key (seed, weight) and counter (0, 0, use, step). The generator can begin at any k, so that masks
are the same for any micro-batch, number of workers and after a resume. Source: Salmon et al.,
*Parallel Random Numbers: As Easy as 1, 2, 3* (2011), as in NumPy.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from odt.core.lowering.normalize.dropout import Mask
from odt.core.runtime.program import Program
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.updates import SAMPLE, SEED, STEP, bind_dropout_mask, fits_compiled
from odt.kernels.rows.opdef import Array

BLOCK = 8  # float32 values for each value of the counter


def bind_masks(program: Program, origin: Array) -> Callable[[], None]:
    """Returns a call that draws the masks of a program.

    Args:
        program: the program.
        origin: seed, number of the update and position in the step of the program's first sample,
            read in each call.
    """
    samples = program.plan.graph.samples
    masks = zip(program.plan.masks, program.masks, strict=True)
    return in_order(_bind_mask(mask, a, a.size // samples, origin) for mask, a in masks)


def _bind_mask(mask: Mask, array: Array, n: int, origin: Array) -> Run:
    if fits_compiled(array):
        return bind_dropout_mask(array, n, mask.weight, mask.use, mask.rate, origin)
    return partial(draw_mask, array.reshape(-1, copy=False), n, mask, origin)


def draw_mask(values: Array, n: int, mask: Mask, origin: Array) -> None:
    """Draws a mask in place.

    Args:
        values: float32, flat.
        n: values of a sample.
        mask: weight, use and rate of the mask.
        origin: as for `bind_masks`.
    """
    seed, step, first = (int(origin[k]) for k in (SEED, STEP, SAMPLE))
    start = n * first
    words = (seed, mask.weight), (start // BLOCK, 0, mask.use, step)
    key, counter = (np.array(each, np.uint64) for each in words)
    rng = np.random.Generator(np.random.Philox(key=key, counter=counter))
    rng.random(start % BLOCK, np.float32)
    rng.random(out=values, dtype=np.float32)
    keep = np.float32(1 - mask.rate)
    values += keep  # u + keep is 1 or more with the probability keep
    np.floor(values, out=values)
    values *= 1 / keep
