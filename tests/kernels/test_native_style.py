"""The C sources compile without a warning and lie as clang-format lays them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.kernels_extension import KERNELS
from support.paths import ROOT

SOURCES = sorted((ROOT / "kernels/native/src").glob("*.c"))
FILES = sorted((ROOT / "kernels/native/src").glob("*.[ch]"))
COMPILERS = [name for name in ("cc", "clang") if shutil.which(name)]
CLANG_FORMAT = shutil.which("clang-format", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_a_source_compiles_without_warnings(path: Path, compiler: str) -> None:
    options = (*KERNELS.extra_compile_args, "-O1", "-fsyntax-only", "-Wall", "-Wextra", "-Werror")
    run = subprocess.run([compiler, *options, path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(CLANG_FORMAT is None, reason="clang-format comes with the extra `test`")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_source_is_formatted(path: Path) -> None:
    run = subprocess.run([str(CLANG_FORMAT), path], capture_output=True, check=True)
    assert run.stdout == path.read_bytes(), f"run {CLANG_FORMAT} -i {path}"
    assert not [x for x in path.read_text(encoding="utf-8").splitlines() if len(x) > 100]
