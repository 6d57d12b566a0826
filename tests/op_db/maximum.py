"""MAXIMUM: reference and samples."""

import numpy as np

from op_db.support.binary import row

INFO = row("MAXIMUM", lambda a, b: np.where(a > b, a, b))
