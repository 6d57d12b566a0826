"""The systems that are compared, and their virtual environments."""

import importlib.util
import subprocess
import sys
import venv
from dataclasses import dataclass, replace
from pathlib import Path

from bench.work import QUICK, Work

HERE = Path(__file__).parent
NEEDED = ("click", "flatbuffers", "threadpoolctl", "tqdm")
TORCH_INDEX = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


@dataclass(frozen=True)
class System:
    """A system in one configuration.

    Attributes:
        environment: folder of its virtual environment in bench-out/; "" for odt, which run.py runs
            in that of startup.ODT.
        script: measuring script in this folder.
        arguments: further arguments of the script.
        variables: environment variables of the process.
        trains: False for a forward pass only.
        symmetric: whether it pads both sides equally where TFLite does not.
        float32: False if it computes in a narrower type.
        ships: whether it reads files that others have trained.
        images: whether it is measured only on networks for images and videos.
        tokens: whether it is measured on networks with a class for each token, too.
        needs: packages to install with pip; of several lists, the first that can be installed.
        works: rows on which it is measured; empty for all.
    """

    environment: str
    script: str
    arguments: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    trains: bool = True
    symmetric: bool = False
    float32: bool = True
    ships: bool = False
    images: bool = False
    tokens: bool = False
    needs: tuple[tuple[str, ...], ...] = ((),)
    works: tuple[str, ...] = ()

    def measures(self, work: Work) -> bool:
        fits = (
            (self.trains or work.mode == "full")
            and (self.ships or not work.shipped)
            and (not self.images or len(work.task.input) in (3, 4))
            and (self.tokens or work.task.loss != "scce")
        )
        return fits and (not self.works or work.name in self.works)

    def python(self, out: Path) -> Path:
        return out / self.environment / "bin/python"


# Builds without CUDA come first: the other one's libraries take 290 MB more of a process.
TORCH = (
    *((f"torch=={version}+cpu", "numpy", *TORCH_INDEX) for version in ("2.14.1", "2.13.0")),
    ("torch==2.14.1", "numpy"),
)
ORT = ("onnxruntime-training==1.19.2", "onnx==1.16.2", "numpy<2", "h5py", "sympy", "cerberus",
       "protobuf", "flatbuffers", "packaging")  # fmt: skip


def odt(*arguments: str, kernels: str = "", works: tuple[str, ...] = ()) -> System:
    variables = (("ODT_KERNELS", kernels),) if kernels else ()
    return System("", "measure_odt.py", arguments, variables, ships=True, tokens=True, works=works)


def torch(how: str, *, images: bool = False) -> System:
    return System("torch", "measure_torch.py", (how,), symmetric=True, images=images, tokens=True,
                  needs=TORCH)  # fmt: skip


BF16 = ("mixer-32-full", "causal_transformer-8-full", "tcn-32-full", "resnet8-64-full",
        "large_windows-8-full")  # fmt: skip
LAST = ("mobilenet-8-last", "mobilenet-32-last")
ONERT = ("onert==0.1.0", "numpy<2.5", "tqdm")
SYSTEMS = {
    "odt": odt(),
    "odt, NumPy only": odt(kernels="numpy"),
    "odt, AVX2": odt(kernels="avx2", works=QUICK),
    "odt, base": odt(kernels="base", works=QUICK),
    "odt, within 100 MB": odt("budget", works=("mobilenet-32-full",)),
    "odt, frozen part cached": odt("cache", works=LAST),
    "odt, bf16": replace(odt("bf16", works=BF16), float32=False),
    "onert": System("onert", "measure_onert.py", ships=True, needs=(ONERT,)),
    "ONNX Runtime": System("ort", "measure_ort.py", symmetric=True, needs=(ORT,)),
    "PyTorch": torch("eager"),
    "PyTorch, channels last": torch("channels-last", images=True),
    "PyTorch, compiled": torch("compiled"),
    "PyTorch, bf16": replace(torch("bf16"), float32=False),
    "LiteRT, forward": System(
        "litert", "measure_litert.py", trains=False, ships=True,
        needs=(("ai-edge-litert", "numpy"),),
    ),
}  # fmt: skip


def set_up(system: System, out: Path) -> str:
    """Creates the environment if it does not exist; returns the error, or an empty string."""
    if not system.environment or (out / system.environment / "ready").exists():
        return ""
    folder = out / system.environment
    sys.stderr.write(f"bench: setting up {folder}\n")
    venv.create(folder, with_pip=True)
    why = ""
    for needs in system.needs:
        command = [str(system.python(out)), "-m", "pip", "install", "--quiet", *needs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            (folder / "ready").touch()
            return ""
        why = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return why


def installed_megabytes(system: System, out: Path) -> float:
    """Returns the installed size without NumPy and pip; for odt, its folders and dependencies."""
    if not system.environment:
        root = HERE.parents[1]
        folders = [root / n for n in ("cli", "core", "kernels", "schemas", "src")]
        specs = (importlib.util.find_spec(n) for n in NEEDED)
        for spec in (s for s in specs if s is not None):
            places = spec.submodule_search_locations or [str(spec.origin)]
            folders += [Path(place) for place in places]
            folders += (f for f in Path(places[0]).parent.glob(f"{spec.name}.libs"))
    else:
        (packages,) = (out / system.environment / "lib").glob("python*/site-packages")
        left_out = ("numpy", "pip", "setuptools", "__pycache__")
        folders = [f for f in packages.iterdir() if not f.name.startswith(left_out)]
    files = (f for folder in folders for f in (folder.rglob("*") if folder.is_dir() else [folder]))
    counted = (f for f in files if f.is_file() and "__pycache__" not in f.parts)
    return sum(f.stat().st_size for f in counted) / 1e6
