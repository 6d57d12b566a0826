"""SUB: reference and samples."""

from op_db.support.binary import row

INFO = row("SUB", lambda a, b: a - b)
