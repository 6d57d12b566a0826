"""A fixture of `pytest_plugins`: objects of all kernels, without volumes, compiled once for all."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from odt.core.emit.project import flags
from support.c_programs import NO_VOLUMES, TARGETS, compile_objects, kernel_sources


@pytest.fixture(scope="session")
def kernel_objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of objects by target; the first of several processes compiles them for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folders = {target: shared / f"kernels-{target}" for target in TARGETS}
    with (shared / "kernels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for target, folder in folders.items():
            if not folder.exists():
                _compile_kernels(target, folder)
    return folders


def _compile_kernels(target: str, folder: Path) -> None:
    """Makes the folder, with the objects of all kernels, or nothing if the compiler fails."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        compile_objects(kernel_sources(), (*flags(target), NO_VOLUMES), Path(partial))
        shutil.copytree(partial, folder)
