"""LOGICAL_AND: reference and samples."""

import operator

from op_db.support.compare import logical

INFO = logical("LOGICAL_AND", operator.and_)
