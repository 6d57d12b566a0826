"""LESS_EQUAL: reference and samples."""

import operator

from op_db.support.compare import compare

INFO = compare("LESS_EQUAL", operator.le)
