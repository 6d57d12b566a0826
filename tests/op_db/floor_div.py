"""FLOOR_DIV: reference and samples."""

from op_db.support.rounding import floor_div, quotients

INFO = quotients("FLOOR_DIV", floor_div)
