"""NEG: reference and samples."""

from op_db.support.unary import row

INFO = row("NEG", lambda x: 0 - x, integers=True)
