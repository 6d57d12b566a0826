"""Runs tests with the unmodified wheel of another processor, emulated by qemu, for make emulate.

It needs only Debian's packages and PyPI: qemu-user, the Python of a Debian release for that
processor, the packages that odt and its tests need, and the wheel from dist/. All files are in
build/emulate/ARCH and are used again by the next run. Emulation shows that results are right, but
nothing about speed. The losses of the trajectories recorded from onert are compared with those of
odt on this machine; the tests are all recorded trajectories, the integer kernels and, with --all,
all operators.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[2]
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
LOSSES = ROOT / "tools" / "wheels" / "golden_losses.py"
SAME = 1e-5  # relative difference of losses
TRAJECTORIES = (
    *("golden", "golden_losses", "golden_updates", "golden_distillation", "torch_models"),
)
GOLDEN = tuple(f"tests/judges/test_{name}.py" for name in TRAJECTORIES)
INTEGERS = "tests/kernels/test_integer_kernels.py"
# A test starts an emulated Python, which only the emulator can do; another compares with
# /proc/cpuinfo, which is that of this machine.
NOT_EMULATED = (
    "a_forked_process_shares_its_calls_too",
    "the_instruction_sets_are_those_that_the_system_names",
)
COMPILED = "tests/kernels/test_compiled.py"
OPERATORS = (
    *("tests/kernels/test_ops.py", COMPILED),
    *(f"--deselect={COMPILED}::test_{name}" for name in NOT_EMULATED),
)
PYTHON_ONLY = (
    *("flatbuffers", "click", "tqdm", "threadpoolctl", "circle-schema", "tflite"),
    *("pytest", "pluggy", "iniconfig", "packaging", "pygments", "hypothesis==6.100.0"),
    *("sortedcontainers", "attrs"),
)
# Libraries that Python's extension modules need.
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
        release: release of Debian.
        python: version of its Python.
        qemu: suffix of the emulator's name.
        wheel: pattern of the wheel's name.
        folder: folder of its libraries.
        packages: further Debian packages.
        numpy: platform of NumPy's wheel on PyPI; empty for Debian's NumPy.
        cpu: qemu's name of the processor; empty for qemu's choice.
        variables: further environment variables, NAME=VALUE.
    """

    debian: str
    release: str
    python: str
    qemu: str
    wheel: str
    folder: str
    packages: tuple[str, ...] = ()
    numpy: str = ""
    cpu: str = ""
    variables: tuple[str, ...] = ()


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
    "x86_64": Machine(
        "amd64", "bookworm", "3.11", "x86_64", "*-manylinux_*_x86_64.*", "x86_64-linux-gnu",
        ("libssl3",), "manylinux_2_28_x86_64", "Nehalem",  # which has no AVX
        ("OPENBLAS_CORETYPE=Nehalem",),  # OpenBLAS takes qemu's for a Haswell
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Emulation:
    """A machine with the wheel installed, in a folder."""

    machine: Machine
    folder: Path
    emulator: Path

    def command(self, *arguments: str | Path, cpu: str = "") -> list[str]:
        """The command that runs the emulated Python.

        Args:
            arguments: arguments of Python.
            cpu: processor, instead of the machine's.
        """
        root, cpu = self.folder / "root", cpu or self.machine.cpu
        libraries = root / "usr/lib" / self.machine.folder
        packages = (
            *(self.folder / "site-packages", root / "usr/lib/python3/dist-packages"),
            *(ROOT / "tests", ROOT / "tools"),
        )
        variables = (
            f"LD_LIBRARY_PATH={libraries / 'blas'}:{libraries / 'lapack'}",
            f"PYTHONPATH={':'.join(map(str, packages))}",
            *("OPENBLAS_NUM_THREADS=1", *self.machine.variables),
        )
        return [
            *(str(self.emulator), "-L", str(root), *(("-cpu", cpu) if cpu else ())),
            *(text for variable in variables for text in ("-E", variable)),
            *(str(root / "usr/bin" / f"python{self.machine.python}"), *map(str, arguments)),
        ]


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


def install(machine: Machine, folder: Path, wheel: Path) -> None:
    """Unpacks Python packages for the machine."""
    packages = folder / "site-packages"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-deps")
    target = ("--target", packages, "--upgrade", "--python-version", machine.python)
    if not packages.exists():
        run(*pip, *target, "--platform", "any", *PYTHON_ONLY)
        if machine.numpy:
            run(*pip, *target, "--platform", machine.numpy, "numpy!=2.3.*")
    shutil.rmtree(packages / "odt", ignore_errors=True)
    run("unzip", "-qo", wheel, "-d", packages)


def prepare(arch: str, dist: Path) -> Emulation:
    """Sets up a machine with its wheel from a folder."""
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
    if not (folder / "root/usr/bin" / f"python{machine.python}").exists():
        parts = ("python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib")
        files = (part.format(machine.python) for part in parts)
        names = (*files, *LIBRARIES, *machine.packages)
        download(folder, machine.debian, machine.release, names)
    install(machine, folder, wheels[-1])
    return Emulation(machine, folder, emulator)


def compare_losses(emulation: Emulation, cpu: str) -> None:
    """Compares the losses of the recorded trajectories with those of this machine's odt."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("tests", "tools"))
    environment = {**os.environ, "PYTHONPATH": paths}
    commands = (emulation.command(LOSSES, cpu=cpu), [sys.executable, str(LOSSES)])
    emulated, expected = (
        json.loads(subprocess.check_output(command, env=environment)) for command in commands
    )
    pairs = [(np.array(emulated[name]), np.array(expected[name])) for name in expected]
    difference = max(float(np.max(np.abs(a - b) / np.abs(b))) for a, b in pairs)
    count = sum(len(a) for a, _ in pairs)
    click.echo(
        f"{count} losses of {len(pairs)} trajectories: the largest relative difference from this "
        f"machine's is {difference:.1e}"
    )
    if not difference <= SAME:
        raise click.ClickException(f"losses: must differ by at most {SAME}")


@click.command()
@click.argument("arch", type=click.Choice(sorted(MACHINES)))
@click.option("--dist", default="dist", type=click.Path(path_type=Path), help="Folder of wheels.")
@click.option("--cpu", default="", help="qemu's name of the processor.")
@click.option("--all", "everything", is_flag=True, help="Run the tests of all operators, too.")
def main(arch: str, dist: Path, cpu: str, everything: bool) -> None:
    """Runs odt's golden trajectories and integer kernels with the wheel of ARCH."""
    emulation = prepare(arch, dist)
    run(*emulation.command("-m", "odt", "--version", cpu=cpu), cwd=emulation.folder)
    compare_losses(emulation, cpu)
    tests = (*GOLDEN, INTEGERS, *(OPERATORS if everything else ()))
    run(
        *emulation.command("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cpu=cpu),
        cwd=ROOT,
    )


if __name__ == "__main__":
    main()
