"""Runs tests with the unmodified wheel of another processor, emulated by qemu; make emulate does.

From nothing but Debian's packages and PyPI: qemu-user, the Python of a Debian release for that
processor, the packages that odt and its tests need, and the wheel from dist/. Everything lies in
build/emulate/ARCH and stays there for the next run. Emulation shows that results are right; it says
nothing of speed. The tests are the golden trajectories and, with --all, every operator's.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
GOLDEN = ("tests/judges/test_golden.py",)
OPERATORS = ("tests/kernels/test_ops.py", "tests/kernels/test_compiled.py")
PYTHON_ONLY = (
    *("flatbuffers", "click", "tqdm", "threadpoolctl", "circle-schema", "tflite"),
    *("pytest", "pluggy", "iniconfig", "packaging", "pygments", "hypothesis==6.100.0"),
    *("sortedcontainers", "attrs"),
)
# What Python's own extension modules are linked with.
LIBRARIES = (
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0"),
    *("liblzma5", "libsqlite3-0", "libuuid1", "libgomp1"),
)
NUMPY = ("python3-numpy", "libblas3", "liblapack3", "libgfortran5")


@dataclass(frozen=True)
class Machine:
    """An emulated machine.

    Attributes:
        debian: Debian's name of the architecture.
        release: of Debian.
        python: version of its Python.
        qemu: the emulator's ending.
        wheel: pattern of the wheel.
        folder: of its libraries.
        packages: more Debian packages.
        numpy: platform of NumPy's wheel on PyPI; empty for Debian's NumPy.
    """

    debian: str
    release: str
    python: str
    qemu: str
    wheel: str
    folder: str
    packages: tuple[str, ...] = ()
    numpy: str = ""


MACHINES = {
    "aarch64": Machine(
        "arm64", "bookworm", "3.11", "aarch64", "*-manylinux_*_aarch64.*", "aarch64-linux-gnu",
        ("libssl3",), "manylinux_2_28_aarch64",
    ),
    "armv7l": Machine(
        "armhf", "trixie", "3.13", "arm", "*-manylinux_*_armv7l.*", "arm-linux-gnueabihf",
        ("libssl3t64", *NUMPY),
    ),
    "riscv64": Machine(
        "riscv64", "trixie", "3.13", "riscv64", "*-manylinux_*_riscv64.*", "riscv64-linux-gnu",
        ("libssl3t64", *NUMPY),
    ),
}  # fmt: skip


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> None:
    """Runs a command, which must succeed."""
    subprocess.run(command, cwd=cwd, env={**os.environ, **variables}, check=True)


def download(folder: Path, debian: str, release: str, packages: tuple[str, ...]) -> None:
    """Unpacks Debian packages of any architecture into folder/root, without installing them."""
    state = folder / "apt"
    for place in ("lists/partial", "cache/archives/partial", "parts"):
        (state / place).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    text = SOURCES.read_text(encoding="utf-8")
    sources = re.sub(r"^(Suites:) (\w+).*$", rf"\1 {release}", text, flags=re.MULTILINE)
    first = sources.split("\n\n")[0]  # the archive itself; security has other names of releases
    (state / "debian.sources").write_text(first + "\n", encoding="utf-8")
    (state / "apt.conf").write_text(
        f'APT::Architecture "{debian}"; APT::Architectures {{"{debian}";}};\n'
        f'Dir::State "{state}"; Dir::State::status "{state}/status"; Dir::Cache "{state}/cache";\n'
        f'Dir::Etc::sourcelist "{state}/debian.sources"; Dir::Etc::sourceparts "{state}/parts";\n'
        'APT::Sandbox::User "root";\n',
        encoding="utf-8",
    )
    config = str(state / "apt.conf")
    run("apt-get", "--quiet=2", "update", APT_CONFIG=config)
    run("apt-get", "--quiet=2", "download", *packages, cwd=folder, APT_CONFIG=config)
    root = folder / "root"
    (root / "usr/lib").mkdir(parents=True, exist_ok=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    for package in sorted(folder.glob("*.deb")):
        run("dpkg", "-x", package, root)
        package.unlink()


def install(machine: Machine, folder: Path, wheel: Path) -> Path:
    """Unpacks Python packages for the machine; returns their folder."""
    packages = folder / "site-packages"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-deps")
    there = ("--target", packages, "--upgrade", "--python-version", machine.python)
    if not packages.exists():
        run(*pip, *there, "--platform", "any", *PYTHON_ONLY)
        if machine.numpy:
            run(*pip, *there, "--platform", machine.numpy, "numpy!=2.3.*")
    shutil.rmtree(packages / "odt", ignore_errors=True)
    run("unzip", "-qo", wheel, "-d", packages)
    return packages


@click.command()
@click.argument("arch", type=click.Choice(sorted(MACHINES)))
@click.option("--dist", default="dist", type=click.Path(path_type=Path), help="Folder of wheels.")
@click.option("--cpu", default="", help="Processor, as qemu calls it.")
@click.option("--all", "everything", is_flag=True, help="The tests of all operators, too.")
def main(arch: str, dist: Path, cpu: str, everything: bool) -> None:
    """Runs odt's golden trajectories with the wheel of ARCH."""
    machine = MACHINES[arch]
    wheels = sorted(dist.glob(f"odt-{machine.wheel}whl"))
    if not wheels:
        raise click.ClickException(f"{dist}: must have the wheel of {arch}. Run make wheels.")
    folder = ROOT / "build" / "emulate" / arch
    tools = ROOT / "build" / "emulate" / "qemu"
    emulator = tools / "root/usr/bin" / f"qemu-{machine.qemu}-static"
    if not emulator.exists():
        host = subprocess.check_output(("dpkg", "--print-architecture"), text=True).strip()
        download(tools, host, "bookworm", ("qemu-user-static",))
    python = folder / "root/usr/bin" / f"python{machine.python}"
    if not python.exists():
        parts = ("python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib")
        own = (part.format(machine.python) for part in parts)
        names = (*own, *LIBRARIES, *machine.packages)
        download(folder, machine.debian, machine.release, names)
    paths = [install(machine, folder, wheels[-1]), folder / "root/usr/lib/python3/dist-packages"]
    place = folder / "root/usr/lib" / machine.folder
    libraries = ":".join(str(place / name) for name in ("blas", "lapack"))
    command = [
        *(str(emulator), "-L", str(folder / "root"), *(("-cpu", cpu) if cpu else ())),
        *("-E", f"LD_LIBRARY_PATH={libraries}"),
        *("-E", f"PYTHONPATH={':'.join(map(str, paths))}", str(python), "-m"),
    ]
    run(*command, "odt", "--version", cwd=folder)
    tests = (*GOLDEN, *(OPERATORS if everything else ()))
    run(*command, "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests, cwd=ROOT)


if __name__ == "__main__":
    main()
