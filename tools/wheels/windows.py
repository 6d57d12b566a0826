"""Tests the kernels of the Windows wheel under wine: python tools/wheels/windows.py.

wine64 comes from Debian's packages, which are unpacked into build/emulate/wine without being
installed. No Python for Windows can be had from PyPI or Debian, so that a program in C loads the
library, and the tests of the compiled kernels call its functions there (windows_kernels.py).
"""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from wheels.emulate import ROOT, download, run

HERE = Path(__file__).parent
FOLDER = ROOT / "build" / "emulate" / "wine"
PACKAGES = ("wine64", "libwine", "libz-mingw-w64", "libunwind8")
LIBRARY = "odt/kernels/native/_kernels.pyd"
TESTS = ("tests/kernels/test_compiled.py", "-k", "agrees_with_numpy or aliased_compiled")


def wine() -> tuple[str, dict[str, str]]:
    """The path of wine64 and its environment; unpacks it first."""
    root = FOLDER / "root"
    programs, libraries = root / "usr/lib/wine", root / "usr/lib/x86_64-linux-gnu"
    if not programs.exists():
        download(FOLDER, "amd64", "bookworm", PACKAGES)
        (programs / "wineserver").unlink()  # a script that names the installed program
        (programs / "wineserver").symlink_to("wineserver64")
        zlib = root / "usr/x86_64-w64-mingw32/lib/zlib1.dll"
        shutil.copy(zlib, libraries / "wine/x86_64-windows")
    variables = {
        "WINEPREFIX": str(FOLDER / "prefix"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",  # neither .NET nor a browser
        "LD_LIBRARY_PATH": str(libraries),
    }
    return str(programs / "wine64"), variables


@click.command()
@click.option("--dist", default="dist", type=click.Path(path_type=Path), help="Folder of wheels.")
def main(dist: Path) -> None:
    """Tests the kernels of the Windows wheel."""
    wheels = sorted(dist.glob("odt-*-win_amd64.whl"))
    if not wheels:
        raise click.ClickException(f"{dist}: must have the wheel of win_amd64. Run make wheels.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheels[-1]) as wheel:
        (FOLDER / "kernels.dll").write_bytes(wheel.read(LIBRARY))
    program = FOLDER / "call_kernels.exe"
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-O1")
    run(*compiler, HERE / "call_kernels.c", "-o", program)
    path, variables = wine()
    assigned = [f"{name}={value}" for name, value in variables.items()]
    command = ["env", *assigned, path, str(program), f"Z:{FOLDER / 'kernels.dll'}"]
    plugin = ("-p", "wheels.windows_kernels", "-p", "no:cacheprovider", "-q")
    paths = os.pathsep.join(str(ROOT / name) for name in ("tools", "tests"))
    environment = {"ODT_WINDOWS_CALLS": json.dumps(command), "PYTHONPATH": paths}
    run(sys.executable, "-m", "pytest", *plugin, *TESTS, cwd=ROOT, **environment)


if __name__ == "__main__":
    main()
