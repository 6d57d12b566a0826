"""Compiled kernels under gcc's sanitizers: no access outside arrays, nothing undefined, no race."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.kernels_extension import KERNELS
from support.paths import ROOT, TESTS

from odt.kernels.native import library

pytestmark = pytest.mark.accept
NATIVE = ROOT / "kernels" / "native" / "src"
HERE = TESTS / "support" / "sanitizers"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# What calls compiled kernels on arrays of their own, whose bounds are known.
FILES = (
    *("test_native_accuracy.py", "test_fusion.py", "test_optimizers.py"),
    *("test_batch_norms.py", "test_windows.py", "test_transpose_conv.py", "test_recurrent.py"),
    *("test_integer_kernels.py", "test_typed_kernels.py", "test_weight_quantization.py"),
    *("test_copies_and_sums.py", "test_gradients_in_sums.py", "test_fused_bias_gradient.py"),
    *("test_depthwise_multiplier.py", "test_shared_filters.py", "test_clipping.py"),
    *("test_dropout.py", "test_integer_weights.py", "test_position_weights.py"),
    *("test_meetings.py", "test_running_statistics.py", "test_integer_graph.py"),
    *("test_compress.py", "test_gradient_blocks.py"),
)
# Every operator on every instruction set is by far the longest: parts show progress and durations.
SETS = library.instruction_sets()
RUNS = (
    *(pytest.param("test_compiled.py", part, id=f"test_compiled.py, {part}")
      for part in (*SETS, f"not ({' or '.join(SETS)})")),
    *(pytest.param(name, "", id=name) for name in FILES),
)  # fmt: skip


def build(target: Path, *arguments: str | Path) -> Path:
    subprocess.run(["gcc", *arguments, "-o", target], cwd=ROOT, check=True)
    return target


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In which a process uses kernels built with the sanitizers."""
    path = build(
        tmp_path_factory.mktemp("sanitized") / "kernels.so",
        *KERNELS.extra_compile_args,
        *("-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined"),
        *("-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"),
        *sorted((ROOT / "kernels/native/src").glob("*.c")),
        *(a for a in KERNELS.extra_link_args if a != "-s"),  # reports name functions
    )
    name = ["gcc", "-print-file-name=libasan.so"]
    return {
        **os.environ,
        "ODT_SANITIZED": str(path),
        "LD_PRELOAD": subprocess.run(
            name, check=True, capture_output=True, text=True
        ).stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(HERE),
    }


@pytest.mark.parametrize(("name", "part"), RUNS)
def test_kernels_keep_to_their_arrays(name: str, part: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "library", "-k", part]
    run = subprocess.run(
        [*command, *TESTS.rglob(name)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-8000:]
    assert " passed" in run.stdout


@pytest.mark.parametrize("size", [63, 64])
def test_a_kernel_that_leaves_its_array_is_found(size: int, environment: dict[str, str]) -> None:
    """64 values are read of an array that is large enough, or not."""
    script = (
        "import library, numpy as np\n"
        "from odt.kernels.native.binding import bind\n"
        f"x, y = np.ones({size}, np.float32), np.empty(64, np.float32)\n"
        "bind('dense', x, np.ones((1, 1), np.float32), None, y, 64, 1, 1, 0, 0.0, 0.0)()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode == 0) == (size == 64), run.stderr
    assert ("AddressSanitizer: heap-buffer-overflow" in run.stderr) == (size == 63)


def test_the_thread_pool_has_no_race(tmp_path: Path) -> None:
    driver = build(
        tmp_path / "team",
        *("-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-pthread", *WARNINGS),
        *(f"-I{NATIVE}", HERE / "team.c", NATIVE / "team.c"),
    )
    # The sanitizer of older compilers knows only addresses as they are without randomization.
    run = subprocess.run(
        ["setarch", "-R", driver], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
