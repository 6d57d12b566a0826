"""COS: reference and samples."""

import numpy as np

from op_db.support.unary import row

INFO = row("COS", np.cos)
