"""Drop-in replacement for Samsung ONE's onert.experimental.train: same names and arguments.

A script written for onert runs after this import is changed. `odt docs one-compatibility` lists the
differences, where odt corrects errors of onert.
"""

from odt.experimental.train import losses, metrics, optimizer
from odt.experimental.train.dataloader import DataLoader
from odt.experimental.train.info import traininfo
from odt.experimental.train.session import TrainSession as session

__all__ = ["DataLoader", "losses", "metrics", "optimizer", "session", "traininfo"]
