"""RSQRT: reference and samples."""

from op_db import positive
from op_db.support.unary import row

INFO = row("RSQRT", lambda x: x**-0.5, positive)
