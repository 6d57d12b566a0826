"""CEIL: reference and samples."""

from math import ceil

from op_db.support.rounding import SIDES, between_jumps, each
from op_db.support.unary import row

INFO = row("CEIL", each(ceil), between_jumps, more=(SIDES,))
