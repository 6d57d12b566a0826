"""MAX_POOL_2D: reference and samples."""

from collections.abc import Mapping

from odt.kernels.rows.opdef import Array
from op_db import Options
from op_db.support.windows import pool, pool_info


def max_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return pool(o, i, greatest=True)


INFO = pool_info("MAX_POOL_2D", max_pool)
