"""MUL: reference and samples."""

from op_db.support.binary import row

INFO = row("MUL", lambda a, b: a * b)
