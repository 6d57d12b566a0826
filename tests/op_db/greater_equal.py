"""GREATER_EQUAL: reference and samples."""

import operator

from op_db.support.compare import compare

INFO = compare("GREATER_EQUAL", operator.ge)
