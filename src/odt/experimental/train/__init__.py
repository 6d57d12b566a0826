"""Training with the names and arguments of Samsung ONE's onert.experimental.train.

A script written for onert runs with only this import changed. What is different, because onert is
at fault there, is in docs/one-compatibility.md.
"""

from odt.experimental.train import losses, metrics, optimizer
from odt.experimental.train.dataloader import DataLoader
from odt.experimental.train.info import traininfo
from odt.experimental.train.session import TrainSession as session

__all__ = ["DataLoader", "losses", "metrics", "optimizer", "session", "traininfo"]
