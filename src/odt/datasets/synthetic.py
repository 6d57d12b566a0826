"""Synthetic data: random inputs, with the outputs that a model computes for them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.protocol import SampleOrder, Weights
from odt.core.data.sidecar import Sidecar, sidecar_path
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.core.storage.atomic_files import AtomicFile
from odt.core.training.inference import Predictor
from odt.dataclass import dataclass
from odt.datasets.data_writers import OUTPUTS
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

BATCH = 16  # samples that are computed at once
CLASSES = 10  # different values of random integers, unless `high` is larger


@dataclass(frozen=True, slots=True)
class Randomness:
    """Distribution of random inputs: uniform from low to high, with a seed.

    Integers end below `high` or CLASSES, whichever is larger, and stay in the range of their dtype.
    """

    low: float = 0.0
    high: float = 1.0
    seed: int = 0


class SyntheticData:
    """Random inputs by number, independent of the batch in which they are read."""

    weights: Weights | None = None

    def __init__(self, specs: Sequence[TensorSpec], randomness: Randomness) -> None:
        self._specs = specs
        self._randomness = randomness

    def sample(self, k: int) -> list[Array]:
        """Returns an array for each input."""
        low, high = self._randomness.low, self._randomness.high
        random = np.random.default_rng((self._randomness.seed, k))
        arrays: list[Array] = []
        for spec in self._specs:
            if spec.dtype.kind == "f":
                array: Array = random.uniform(low, high, spec.shape)
            else:
                array = random.integers(*_bounds(low, high, spec.dtype), spec.shape)
            arrays.append(array.astype(spec.dtype))
        return arrays

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        for row, k in enumerate(samples):
            for out, x in zip(inputs, self.sample(int(k)), strict=True):
                out[row] = x.reshape(out[row].shape)


def _bounds(low: float, high: float, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Returns the least random integer, and the one after the largest, that a dtype can hold."""
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    first = min(max(int(low), least), most)
    return first, max(first + 1, min(max(int(high), CLASSES), most + 1))


def synthetic_data(
    model_path: str,
    paths: tuple[Path, Path],
    length: int,
    randomness: Randomness,
    output: str,
    progress: Callable[[str, int, int | None], None],
) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Writes inputs and outputs of a model; returns the specs of a sample.

    Only float outputs are written, because only they can have a loss; all outputs if none is float.

    Args:
        model_path: path of the model.
        paths: files of the inputs and of the outputs.
        length: number of samples.
        randomness: distribution of the inputs.
        output: format of the files, a key of OUTPUTS.
        progress: called with the name, the number of samples so far, and `length`.

    Raises:
        OdtError: if the model cannot be read or computed, outputs are not finite, or a file cannot
            be written.
    """
    graphs = lower_model(read_model(model_path)).graphs
    with ExitStack() as stack:
        predictor = stack.enter_context(Predictor(graphs, min(BATCH, length), workers=1))
        outputs_of_model = predictor.runtime.output_specs
        positions = [k for k, spec in enumerate(outputs_of_model) if spec.dtype.kind == "f"]
        positions = positions or [*range(len(outputs_of_model))]
        specs = (
            list(predictor.runtime.input_specs),
            [outputs_of_model[k] for k in positions],
        )
        data = SyntheticData(specs[0], randomness)
        files = [OUTPUTS[output](path, s, stack) for path, s in zip(paths, specs, strict=True)]
        done = 0
        for outputs in predictor.run(data, range(length)):
            for row in range(len(outputs[0])):
                files[0].append([np.ascontiguousarray(x) for x in data.sample(done)])
                # Copied, because the predictor reuses its arrays.
                files[1].append([outputs[k][row].copy() for k in positions])
                done += 1
            if not all(np.isfinite(y).all() for y in outputs if y.dtype.kind == "f"):
                raise DataError(
                    f"{model_path}: the model's outputs must be finite, but are not for these "
                    "inputs. Give another `low=` or `high=`."
                )
            progress("random", done, length)
        recipe = {
            "files": {"input": paths[0].name, "output": paths[1].name},
            "source": {"name": "random", "model": Path(model_path).name},
            "seed": randomness.seed,
            "range": [randomness.low, randomness.high],
        }
        sidecars = []
        for file, path in zip(files, paths, strict=True):
            sidecar = AtomicFile(sidecar_path(str(path)), DataError)
            stack.callback(sidecar.discard)
            content = Sidecar(file.tensors, length, (), file.finish(), recipe)
            sidecar.write(content.to_bytes())
            sidecars.append(sidecar)
        for file, path, sidecar in zip(files, paths, sidecars, strict=True):
            file.commit(path)
            sidecar.commit()
    return specs
