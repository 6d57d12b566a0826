"""The kernels of NumPy's matrix products, chosen before NumPy is imported."""

import os
import subprocess
import sys

import pytest

from odt.openblas import core_type

WIDE = "avx2 avx512f avx512cd avx512bw avx512dq avx512vl"
SHOW = "import odt, os, sys; print(os.environ.get('OPENBLAS_CORETYPE', ''), 'numpy' in sys.modules)"


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("AuthenticAMD", WIDE, "SkylakeX"),
        ("AuthenticAMD", "avx2 avx512f", ""),
        ("GenuineIntel", WIDE, ""),  # OpenBLAS knows these
    ],
)
def test_core_type_follows_the_processor(vendor: str, flags: str, expected: str) -> None:
    text = f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu {flags}\nbugs\t: some\n"
    assert core_type(text * 2) == expected
    assert core_type("") == ""


def test_a_choice_of_the_user_is_kept() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["Haswell", "False"]


def test_nothing_changes_once_numpy_is_there() -> None:
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    shown = subprocess.run(
        [sys.executable, "-c", "import numpy; " + SHOW],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["True"]
