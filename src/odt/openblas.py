"""Which kernels NumPy's OpenBLAS computes with, on processors that it does not know.

OpenBLAS chooses by the processor's model, and takes AVX2 kernels on a newer AMD than it was
written for. Its AVX-512 kernels are 1.6 to 1.9 times as fast there. The choice is made when NumPy
is imported, from the environment.
"""

import os
import sys
from pathlib import Path

NEEDED = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


def core_type(cpuinfo: str) -> str:
    """What OPENBLAS_CORETYPE should be, by the beginning of /proc/cpuinfo; "" to leave it alone."""
    values: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), value.strip())
    wide = set(values.get("flags", "").split()) >= NEEDED
    return "SkylakeX" if wide and values.get("vendor_id") == "AuthenticAMD" else ""


def choose() -> None:
    """Sets OPENBLAS_CORETYPE where that helps; nothing once it is set or NumPy is there."""
    if "numpy" in sys.modules or "OPENBLAS_CORETYPE" in os.environ:
        return
    try:
        with Path("/proc/cpuinfo").open() as f:
            found = core_type(f.read(8192))  # one core's part: there may be hundreds
    except OSError:
        return
    if found:
        os.environ["OPENBLAS_CORETYPE"] = found
