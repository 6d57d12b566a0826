"""SUM: reference and samples."""

from op_db.support.reduce import HALVES, row

INFO = row("SUM", lambda m: m.sum(1), more=HALVES)
