"""REDUCE_ANY: reference and samples."""

import numpy as np

from op_db.support.reduce import logical

INFO = logical("REDUCE_ANY", lambda m: np.array([any(row) for row in m], bool))
