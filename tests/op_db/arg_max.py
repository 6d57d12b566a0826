"""ARG_MAX: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, distinct
from op_db.support.indices import ARGUMENT_REFUSALS, ARGUMENTS, LARGE_ARGUMENT


def arg_max(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.argmax(i["x"], int(np.ravel(o["axis"])[0]))}


INFO = OpInfo("ARG_MAX", arg_max, ARGUMENTS, LARGE_ARGUMENT, ARGUMENT_REFUSALS, draw=distinct)
