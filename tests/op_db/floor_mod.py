"""FLOOR_MOD: reference and samples."""

from op_db.support.rounding import floor_div, quotients

INFO = quotients("FLOOR_MOD", lambda a, b: a - floor_div(a, b) * b)
