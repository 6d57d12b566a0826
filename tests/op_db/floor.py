"""FLOOR: reference and samples."""

from math import floor

from op_db.support.rounding import SIDES, between_jumps, each
from op_db.support.unary import row

INFO = row("FLOOR", each(floor), between_jumps, more=(SIDES,))
