"""The losses of the steps of a training run."""

from odt.core.training.watch import Watch


class Losses(Watch):
    """Keeps the loss of each step."""

    def __init__(self) -> None:
        self.all: list[float] = []

    def step(self, epoch: int, step: int, loss: float) -> None:
        self.all.append(loss)
