"""Random samples with the shapes of a model, reproducible by a seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.data.protocol import SampleOrder, Weights
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.runtime.runtime import Runtime
from odt.dataclass import dataclass
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import Draw
from odt.kernels.rows.opdef import Array, TensorSpec

# Distributions of float inputs: most models take numbers near 0, some take pixels or word numbers.
# Annotations are strings, because to evaluate them would load numpy.random, which takes long.
FLOATS: "Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]]" = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "small": lambda rng, shape: rng.normal(size=shape) / 10,
    "unit": lambda rng, shape: rng.random(shape),
    "pixels": lambda rng, shape: rng.integers(0, 256, shape).astype(np.float64),
    "words": lambda rng, shape: rng.integers(0, 2, shape),
}


def random_data(specs: Runtime | SampleSpecs, seed: int) -> "RandomData":
    """Makes random samples for a runtime that computes losses, or a whole model."""
    draws = [LOSSES[name].draw for name, _ in specs.losses]
    return RandomData(specs.input_specs, specs.target_specs, draws, seed, usual=specs.usual)


@dataclass(frozen=True, slots=True)
class RandomData:
    """Random inputs, and targets that a loss can use.

    Integers are 0 and 1, valid as token indices and as flags; 8-bit integers have any value, as in
    images. The values of a sample depend only on its number and the seed.

    Attributes:
        inputs, targets: specs of one sample.
        draws: for each target the function of its loss that draws random values.
        seed: seed of the values.
        floats: distribution of float inputs, one of FLOATS.
        weights: None, because random samples have no weights.
        usual: value of each input that always has the same one; None for others.
    """

    inputs: Sequence[TensorSpec]
    targets: Sequence[TensorSpec]
    draws: Sequence[Draw]
    seed: int = 0
    floats: str = "normal"
    weights: Weights | None = None
    usual: Sequence[int | None] = ()

    def others(self) -> "list[RandomData]":
        """Returns random data of the same shapes with other seeds and distributions."""
        return [replace(self, seed=self.seed + 1 + k, floats=f) for k, f in enumerate(FLOATS)]

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Fills the arrays with samples, one row each; no targets if `targets` is empty."""
        for row, number in enumerate(samples):
            rng = np.random.default_rng((self.seed, int(number)))
            for k, (spec, out) in enumerate(zip(self.inputs, inputs, strict=True)):
                out[row] = self._input(rng, spec).reshape(out[row].shape)
                usual = self.usual[k] if self.usual else None
                if usual is not None:
                    out[row] = usual
            # A caller may give no arrays, to read no targets.
            for spec, draw, out in zip(self.targets, self.draws, targets, strict=False):
                out[row] = draw(rng, spec).reshape(out[row].shape)

    def _input(self, rng: "np.random.Generator", spec: TensorSpec) -> Array:
        if spec.dtype.kind == "f":
            return FLOATS[self.floats](rng, spec.shape)
        if spec.dtype in (np.uint8, np.int8):
            return rng.integers(0, 256, spec.shape).astype(np.uint8).view(spec.dtype)
        return rng.integers(0, 2, spec.shape)
