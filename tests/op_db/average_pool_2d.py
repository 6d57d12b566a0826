"""AVERAGE_POOL_2D: reference and samples."""

from collections.abc import Mapping

from odt.kernels.rows.opdef import Array
from op_db import Options
from op_db.support.windows import pool, pool_info


def average_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return pool(o, i, greatest=False)


INFO = pool_info("AVERAGE_POOL_2D", average_pool)
