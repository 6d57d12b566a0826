"""ROUND: reference and samples."""

from op_db.support.rounding import SIDES, between_jumps, each
from op_db.support.unary import row

INFO = row("ROUND", each(round), between_jumps, more=(SIDES,))
