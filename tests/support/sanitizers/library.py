"""A pytest plugin that loads kernels from the library ODT_SANITIZED."""

import ctypes
import os
from functools import cache

from odt.kernels.native import library as native


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["ODT_SANITIZED"])


native.load = library
