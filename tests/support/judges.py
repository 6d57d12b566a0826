"""Runs odt's files in other runtimes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from odt.core.formats.reader import read_model
from odt.core.lowering.sample_axis import sample_spec
from odt.core.model.model import Model
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.inference import Predictor
from odt.kernels.rows.opdef import Array
from support.networks import ArrayData
from support.no_wheels import skip_without


def litert(
    path: str | os.PathLike[str],
    inputs: Sequence[Array],
    shapes: Sequence[Sequence[int]] = (),
    xnnpack: bool = True,
) -> list[Array]:
    """Returns LiteRT's outputs for samples, computed in batches of the file's size, usually 1.

    Args:
        path: the model.
        inputs: samples of each input.
        shapes: shapes to which the inputs are resized; none for those of the file.
        xnnpack: whether XNNPACK computes what it can, instead of LiteRT's own kernels.
    """
    kernels = OpResolverType.AUTO if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kernels)
    for detail, shape in zip(interpreter.get_input_details(), shapes, strict=False):
        interpreter.resize_tensor_input(detail["index"], list(shape))
    interpreter.allocate_tensors()
    results: list[list[Array]] = []
    batch = int(np.prod(interpreter.get_input_details()[0]["shape"])) // inputs[0][0].size
    for k in range(0, len(inputs[0]), batch):
        for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
            sample = values[k : k + batch].reshape(detail["shape"]).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], sample)
        interpreter.reset_all_variables()
        interpreter.invoke()
        details = interpreter.get_output_details()
        results.append([interpreter.get_tensor(d["index"]).copy() for d in details])
    return [np.concatenate([np.atleast_1d(r[i]) for r in results]) for i in range(len(results[0]))]


def inner(path: Path, x: Array, tensor: int) -> Array:
    """A tensor in the middle of a model, by LiteRT."""
    interpreter = Interpreter(str(path), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(tensor))


# onert writes past short buffers and crashes on what it does not know: it gets a process.
_ONERT = """
import sys
import numpy as np
from onert import infer

session = infer.session(sys.argv[1])
inputs = [np.load(name) for name in sys.argv[3:]]
results = [session.infer([a[k : k + 1] for a in inputs]) for k in range(len(inputs[0]))]
for i in range(len(results[0])):
    np.save(f"{sys.argv[2]}{i}", np.concatenate([r[i] for r in results]))
"""


def onert(path: str | os.PathLike[str], inputs: Sequence[Array], folder: Path) -> list[Array]:
    """Returns onert's outputs for samples, computed one at a time.

    Args:
        folder: working folder; onert accepts paths of at most 15 bytes.
    """
    skip_without("onert")
    shutil.copyfile(path, folder / "m.circle")
    for k, a in enumerate(inputs):
        dtype = np.int8 if a.dtype == np.int8 else np.float32
        np.save(folder / f"x{k}", np.ascontiguousarray(a, dtype))
    names = [f"x{k}.npy" for k in range(len(inputs))]
    command = [sys.executable, "-c", _ONERT, "m.circle", "y", *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [np.load(p) for p in sorted(folder.glob("y*.npy"))]


def odt(
    path: str | os.PathLike[str] | Model, inputs: Sequence[Array], batch: int = 4
) -> list[Array]:
    """Returns odt's outputs for the same samples."""
    model = path if isinstance(path, Model) else read_model(path)
    with Predictor(lower_model(model).graphs, batch) as predictor:
        data = ArrayData(inputs, ())
        batches = [
            [a.copy() for a in outputs] for outputs in predictor.run(data, range(len(inputs[0])))
        ]
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


def difference(ours: Array, theirs: Array) -> float:
    """Returns the largest difference, as a fraction of the range of the other output."""
    theirs = theirs.reshape(ours.shape)
    spread = float(theirs.max() - theirs.min()) or 1.0
    return float(np.abs(ours - theirs).max()) / spread


def random_inputs(path: Path, samples: int, seed: int = 0) -> list[Array]:
    """Returns random samples for a model's inputs: standard normal, integers 0 … 9."""
    graphs = lower_model(read_model(str(path))).graphs
    graph = graphs.at_file_batch
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for i in graph.inputs:
        spec = sample_spec(graph, graph.label(i), graph.tensors[i].spec, graphs.file_batch)
        shape = (samples, *spec.shape)
        if spec.dtype.kind == "f":
            found.append(rng.normal(size=shape).astype(spec.dtype))
        else:
            found.append(rng.integers(0, 10, shape).astype(spec.dtype))
    return found
