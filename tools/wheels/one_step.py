"""Runs one training step of a model, for peak.py: one_step.py MODEL BATCH ADDRESSES.

Writes to the file ADDRESSES where the compiled kernels lie in memory: "start end", hexadecimal.
They are loaded before everything else, so that they lie at the same place in every run. A batch of
0 ends the process there.
"""

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path


def main(model: str, batch: int, addresses: Path) -> None:
    """Writes the addresses, then runs a step with one worker."""
    package = find_spec("odt")
    assert package
    assert package.origin
    library = Path(package.origin).parent / "kernels/native/_kernels.so"
    ctypes.CDLL(str(library))
    maps = Path("/proc/self/maps").read_text().splitlines()
    places = [line.split()[0].split("-") for line in maps if line.endswith(library.name)]
    addresses.write_text(f"{places[0][0]} {places[-1][1]}")
    if not batch:
        return
    from bench.networks import Shipped, random_batch
    from bench.scaling import OneBatch

    from odt.core.model.reader import read_model
    from odt.core.model.training_info import TrainingInfo
    from odt.core.training.trainer import Trainer

    graph = read_model(model).graph
    shapes = [graph.tensors[t].spec.shape for t in (*graph.inputs, *graph.outputs)]
    task = Shipped(model, shapes[0][1:], shapes[1][1:])
    x, y = random_batch(task, batch)
    info = TrainingInfo(optimizer="sgd", loss="categorical_crossentropy", batch_size=batch)
    with Trainer(graph, info, workers=1) as trainer:
        trainer.step(OneBatch(x, y), batch)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
