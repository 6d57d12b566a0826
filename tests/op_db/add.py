"""ADD: reference and samples."""

from op_db.support.binary import row

INFO = row("ADD", lambda a, b: a + b)
