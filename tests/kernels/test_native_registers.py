"""Every compiler keeps the accumulators of products in registers during the inner loops."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.kernels_extension import KERNELS
from support.paths import ROOT

SOURCES = ROOT / "kernels/native/src"
COMPILERS = [n for n in ("gcc", "clang", "clang-14", "clang-19") if shutil.which(n)]
FULL_TILES = {  # source: functions whose inner loops are full register tiles
    "convolution.c": r"(correlate_tile|correlate_low|filter_rows|filter_wide|tap_rows|tap_runs)\d",
    "dense.c": r"dense_tile_full",
    "depthwise.c": r"filter_taps[23]",
    "attention.c": r"matmul_rows\d",
    "batch_matmul.c": r"matmul_rows\d",
    "recurrent.c": r"gate_product",
}
CLANG_14_STORES = "tap_rows1_avx2"  # one of its eight accumulators
MULTIPLY_ADD = re.compile(r"vfmadd|v?mulps|fmla")
VECTOR_STORE = re.compile(r"v?mov[au]p[sd]\w*\s+%[xyz]mm\d+, .*\(|st[pr]\s+q\d")


def inner_loops(assembly: str, name: str) -> list[list[str]]:
    """The instructions of every innermost loop of the functions whose names match."""
    loops: list[list[str]] = []
    assembly = re.sub(r"\s*(#|//).*", "", assembly)
    for body in re.split(r"^(?=\w[\w.]*:$)", assembly, flags=re.MULTILINE):
        if not re.match(name, body):
            continue
        lines = [x.strip() for x in body.split("\n")]
        labels = {x[:-1]: k for k, x in enumerate(lines) if re.fullmatch(r"\.L\w+:", x)}
        ends = [
            (labels[m[1]], k)
            for k, x in enumerate(lines)
            if (m := re.match(r"(?:j|b|cb|tb)[\w.]*\s.*?(\.L\w+)", x)) and labels.get(m[1], k) < k
        ]
        loops += [
            lines[a:b]
            for a, b in ends
            if not any((a, b) != o and a <= o[0] and o[1] <= b for o in ends)
        ]
    return loops


def tiles_of(source: str, compiler: str) -> str:
    """The names of the functions that a compiler is judged by."""
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    passed_over = f"(?!{CLANG_14_STORES}:)" if "clang version 14." in version.stdout else ""
    return passed_over + FULL_TILES[source]


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64") or not COMPILERS,
    reason="the instructions of x86-64 and aarch64 are known, and a compiler is needed",
)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", FULL_TILES)
def test_no_inner_loop_of_a_tile_stores_a_vector(
    source: str, compiler: str, tmp_path: Path
) -> None:
    """A vector that a loop of sums stores is an accumulator that found no register."""
    out = tmp_path / "out.s"
    options = (*KERNELS.extra_compile_args, "-fPIC", "-S", "-o", out)
    subprocess.run([compiler, *options, SOURCES / source], check=True, capture_output=True)
    loops = inner_loops(out.read_text(encoding="utf-8"), tiles_of(source, compiler))
    loops = [x for x in loops if sum(bool(MULTIPLY_ADD.match(i)) for i in x) >= 8]
    assert loops, "no loop multiplies"
    assert not [i for x in loops for i in x if VECTOR_STORE.match(i)]
