"""REDUCE_ALL: reference and samples."""

import numpy as np

from op_db.support.reduce import logical

INFO = logical("REDUCE_ALL", lambda m: np.array([all(row) for row in m], bool))
