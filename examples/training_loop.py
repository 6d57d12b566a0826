"""Trains with a custom loop over batches, as in PyTorch: backward, clip gradients, step, scheduler.

Usage, in the project's folder:

    odt new cnn --input-shape 28,28,1 --outputs 10 -o model.tflite --seed 1
    python examples/training_loop.py model.tflite trained.tflite [EPOCHS]
"""

import sys
from collections.abc import Iterator

import numpy as np
from quickstart import Array, load

import odt

BATCH = 32
CLIP = 1.0  # largest norm of all gradients together


def batches(x: Array, y: Array, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yields shuffled batches; a torch DataLoader could be used instead."""
    order = rng.permutation(len(x))
    for first in range(0, len(x) - BATCH + 1, BATCH):
        picked = order[first : first + BATCH]
        yield x[picked], y[picked]


def clip_gradients(gradients: odt.Arrays) -> None:
    """Scales all gradients in place so that the norm of all together is at most CLIP."""
    norm = np.sqrt(sum(np.vdot(g, g) for g in gradients.values()))
    for gradient in gradients.values():
        np.multiply(gradient, CLIP / max(norm, CLIP), out=gradient)


def main(source: str, target: str, epochs: int = 3) -> None:
    x_train, y_train = load("train")
    x_test, y_test = load("t10k")
    rng = np.random.default_rng(1)

    with odt.Trainer(source, optimizer=odt.SGD(0.05, momentum=0.9), batch_size=BATCH) as trainer:
        for epoch in range(epochs):
            losses = []
            for x, y in batches(x_train, y_train, rng):
                losses.append(trainer.forward_backward(x, y))
                clip_gradients(trainer.gradients)
                trainer.apply_gradients()
            trainer.learning_rate *= 0.5
            test = trainer.evaluate(x_test, y_test)
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, test loss {test['loss']:.4f}")
        trainer.export(target)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
