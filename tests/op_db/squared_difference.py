"""SQUARED_DIFFERENCE: reference and samples."""

from op_db.support.binary import row

INFO = row("SQUARED_DIFFERENCE", lambda a, b: a * a - 2 * a * b + b * b)
