"""REAL: reference and samples."""

from op_db.support.complex_numbers import part_of_complex

INFO = part_of_complex("REAL", lambda x: x.real)
