"""SQUARE: reference and samples."""

from op_db.support.unary import row

INFO = row("SQUARE", lambda x: x * x, integers=True)
