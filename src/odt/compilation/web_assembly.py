"""Compiles a C program to WebAssembly with zig's C compiler, from the package ziglang."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from odt.core.emit.step_program import StepProgram
from odt.core.emit.wasm_data import without_data
from odt.core.emit.web_files import web_files
from odt.errors import OdtError, UnsupportedError

# Loops unrolled by the compiler make a module a tenth larger, and not faster.
OPTIONS = (
    *("-target", "wasm32-freestanding", "-mcpu=generic+simd128+bulk_memory+bulk_memory_opt"),
    *("-flto", "-fno-unroll-loops", "-fno-sanitize=undefined", "-Wno-pass-failed"),
    "-Iwasm",
)
STACK = 2**17  # bytes, for frames of kernels of up to 103 kB
LINKING = (
    *("-nostdlib", "-s", "-Wl,--no-entry", "-Wl,--gc-sections", "-Wl,--export=__heap_base"),
    f"-Wl,-z,stack-size={STACK}",
)
FUNCTIONS = (
    *("init", "train", "evaluate", "predict", "set_learning_rate"),
    *("get_weights", "set_weights", "save", "load"),
)
MODULE = "program.wasm"
INSTALL = "Install it: pip install 'odt[wasm]'."


def check_compiler() -> None:
    """Raises UnsupportedError if zig is not installed."""
    if find_spec("ziglang") is None:
        raise UnsupportedError(
            f"target wasm: needs the package ziglang, which is not installed. {INSTALL}"
        )


def for_javascript(
    program: StepProgram, name: str, files: Mapping[str, str | bytes]
) -> dict[str, str | bytes]:
    """Returns a module with the code of a program, its data, what JavaScript needs, and a manifest.

    Args:
        program: the step.
        name: prefix of the C functions.
        files: the C program and its manifest, path → text or bytes.

    Raises:
        OdtError: if the compiler fails.
    """
    texts = web_files(program, name, exports=f"{name}_model.c" in files)
    manifest = json.loads(files["manifest.json"])
    module, segments = without_data(_compile({**files, **texts}, name, manifest["flags"]))
    data = b"".join(segment.data for segment in segments)
    places = [{"address": s.address, "size": len(s.data)} for s in segments]
    manifest["wasm"] = {
        "module": _facts(f"{name}.wasm", module),
        "data": {**_facts(f"{name}.bin", data), "segments": places},
    }
    manifest_text = json.dumps(manifest, indent=2) + "\n"
    modules = {f"{name}.wasm": module, f"{name}.bin": data}
    return {**texts, **modules, "manifest.json": manifest_text}


def _compile(files: Mapping[str, str | bytes], name: str, flags: Sequence[str]) -> bytes:
    """Returns a module.

    Args:
        files: path → text or bytes.
        name: prefix of the functions.
        flags: options of the C compiler that fix the bits.

    Raises:
        OdtError: if the compiler fails.
    """
    sources = sorted(path for path in files if path.endswith(".c") and path != "example.c")
    kernels = [path for path in sources if path.startswith("kernels/")]
    program = [path for path in sources if path not in kernels]
    exports = [f"-Wl,--export={name}_{function}" for function in FUNCTIONS]
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            file = Path(folder, path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        objects: list[str] = []
        for source in program:  # which runs once a step, so that it should be small
            objects.append(f"{len(objects)}.o")
            _zig(folder, *flags, *OPTIONS, "-Os", "-c", source, "-o", objects[-1])
        _zig(folder, *flags, *OPTIONS, *LINKING, *exports, *objects, *kernels, "-o", MODULE)
        return Path(folder, MODULE).read_bytes()


def _zig(folder: str, *options: str) -> None:
    """Runs zig's C compiler in a folder, with its cache there instead of in the user's home."""
    caches = "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"
    environment = os.environ | dict.fromkeys(caches, str(Path(folder, "cache")))
    command = [sys.executable, "-m", "ziglang", "cc", *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise OdtError(f"target wasm: zig failed, with status {done.returncode}: {done.stderr}")


def _facts(file: str, data: bytes) -> dict[str, object]:
    """Returns name and size of a file, and its digest as `fetch` takes it."""
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    return {"file": file, "size": len(data), "integrity": f"sha256-{digest}"}
