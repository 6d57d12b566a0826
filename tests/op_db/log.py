"""LOG: reference and samples."""

import numpy as np

from op_db import positive
from op_db.support.unary import row

INFO = row("LOG", np.log, positive)
