"""LOGICAL_OR: reference and samples."""

import operator

from op_db.support.compare import logical

INFO = logical("LOGICAL_OR", operator.or_)
