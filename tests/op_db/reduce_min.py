"""REDUCE_MIN: reference and samples."""

import numpy as np

from op_db import distinct
from op_db.support.reduce import NOTHING, row

INFO = row("REDUCE_MIN", lambda m: np.sort(m, 1)[:, 0], draw=distinct, refusals=NOTHING)
