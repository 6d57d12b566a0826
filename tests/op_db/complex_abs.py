"""COMPLEX_ABS: reference and samples."""

import numpy as np

from op_db.support.complex_numbers import part_of_complex

INFO = part_of_complex("COMPLEX_ABS", lambda x: np.sqrt(x.real**2 + x.imag**2))
