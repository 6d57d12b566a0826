"""Runs files in runtimes of others, each in an environment of its own that the Makefile made."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from odt.kernels.rows.opdef import Array
from support.paths import ROOT

INTERPRETER = """
    i = Interpreter(model_path=path, num_threads=1, **more)
    i.allocate_tensors()
    ins, outs = i.get_input_details(), i.get_output_details()
    for k in range(len(xs[0])):
        for d, x in zip(ins, xs):
            i.set_tensor(d["index"], x[k : k + 1].astype(d["dtype"]).reshape(d["shape"]))
        i.reset_all_variables()
        i.invoke()
        rows.append([i.get_tensor(d["index"]).copy() for d in outs])
"""
# What computes `rows` from `path` and `xs` in each runtime.
SCRIPTS = {
    "litert": """
    from ai_edge_litert.interpreter import Interpreter
    more = {}"""
    + INTERPRETER,
    "litert-builtin": """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    more = {"experimental_op_resolver_type": kernels}"""
    + INTERPRETER,
    "compiled-model": """
    from ai_edge_litert.compiled_model import CompiledModel
    model = CompiledModel.from_file(path)
    for k in range(len(xs[0])):
        ins, outs = model.create_input_buffers(0), model.create_output_buffers(0)
        key = model.get_signature_by_index(0)["key"]
        described = model.get_input_tensor_details(key)
        for b, name, x in zip(ins, model.get_signature_by_index(0)["inputs"], xs):
            b.write(np.ascontiguousarray(x[k : k + 1].astype(described[name]["dtype"])))
        model.run_by_index(0, ins, outs)
        made = model.get_output_tensor_details(key)
        names = model.get_signature_by_index(0)["outputs"]
        row = []
        for b, name in zip(outs, names):
            size = int(np.prod(made[name]["shape"]))
            row.append(b.read(size, made[name]["dtype"]).reshape(made[name]["shape"]))
        rows.append(row)
""",
    "tflite-runtime": """
    from tflite_runtime.interpreter import Interpreter
    more = {}"""
    + INTERPRETER,
    "tflite-micro": """
    from tflite_micro import runtime
    i = runtime.Interpreter.from_file(path, arena_size=8 << 20)
    for k in range(len(xs[0])):
        for n, x in enumerate(xs):
            d = i.get_input_details(n)
            i.set_input(x[k : k + 1].astype(d["dtype"]).reshape(d["shape"]), n)
        i.invoke()
        rows.append([np.array(i.get_output(n)) for n in range(outputs)])
        i.reset()
""",
    "openvino": """
    import openvino
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for k in range(len(xs[0])):
        request = compiled.create_infer_request()
        feed = {}
        for n, x in enumerate(xs):
            port = compiled.input(n)
            feed[n] = x[k : k + 1].astype(port.get_element_type().to_dtype())
        result = request.infer(feed)
        rows.append([np.array(result[compiled.output(n)]) for n in range(outputs)])
""",
}
FRAME = """
import sys
import numpy as np

path, outputs = sys.argv[1], int(sys.argv[3])
given = np.load(sys.argv[2])
xs, rows = [given[str(k)] for k in range(len(given.files))], []
try:{script}
except Exception as e:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    print("REFUSED", type(e).__name__, " ".join(lines)[:500])
    sys.exit(3)
made = {{str(n): np.concatenate([np.asarray(r[n])[None] for r in rows]) for n in range(outputs)}}
np.savez(sys.argv[4], **made)
"""
OWN = ("litert", "litert-builtin", "compiled-model")  # in the environment of the tests


class RefusedError(Exception):
    """A runtime does not take a file, and says so."""


def python_of(runtime: str) -> Path:
    """The Python of a runtime's environment.

    Raises:
        AssertionError: says how to make it.
    """
    if runtime in OWN:
        return Path(sys.executable)
    found = ROOT / ".venv" / "runtimes" / runtime / "bin" / "python"
    assert found.exists(), f"{found} is missing. Make it with: make accept ONLY=runtimes"
    return found


def run(
    runtime: str,
    path: Path,
    inputs: Sequence[Array],
    outputs: int,
    python: Path | None = None,
) -> list[Array]:
    """Returns the outputs of samples, (samples, …), as the file stores them.

    Args:
        runtime: one of SCRIPTS.
        path: the model.
        inputs: samples of each input.
        outputs: number of outputs.
        python: a Python that has the runtime; None for that of the runtime's environment.

    Raises:
        RefusedError: if the runtime does not take the file, with its words.
    """
    given, made = path.with_suffix(".in.npz"), path.with_suffix(f".{runtime}.npz")
    np.savez(given, **{str(k): x for k, x in enumerate(inputs)})  # type: ignore[arg-type]
    made.unlink(missing_ok=True)
    command = [python or python_of(runtime), "-c", FRAME.format(script=SCRIPTS[runtime])]
    done = subprocess.run(
        [*map(str, command), str(path), str(given), str(outputs), str(made)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=_environment(),
    )
    if done.returncode:
        words = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        refusal = [line for line in words if line.startswith("REFUSED")]
        raise RefusedError(" ".join(refusal + words)[:1500] or f"status {done.returncode}")
    with np.load(made) as file:
        return [file[str(n)] for n in range(outputs)]


def _environment() -> Mapping[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
