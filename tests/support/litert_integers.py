"""The integers of quantized model files as LiteRT computes them."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array
from support.integer_files import StrPath, odt_integers


def litert_integers(
    path: StrPath, inputs: Sequence[Array], reference: bool = False
) -> dict[int, Array]:
    """Returns LiteRT's values of every tensor that is computed, sample by sample.

    Args:
        reference: whether to use TFLite's reference kernels instead of XNNPACK.
    """
    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = Interpreter(
            str(path),
            num_threads=1,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=kind,
        )
    interpreter.allocate_tensors()
    made = [i for n in read_model(path).graph.nodes for i in n.outputs]
    results: dict[int, list[Array]] = {i: [] for i in made}
    for k in range(len(inputs[0])):
        for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
            sample = values[k : k + 1].reshape(detail["shape"])
            interpreter.set_tensor(detail["index"], sample)
        interpreter.reset_all_variables()
        interpreter.invoke()
        for i in made:
            results[i].append(interpreter.get_tensor(i).copy())
    return {i: np.stack(parts) for i, parts in results.items()}


def beyond_one_step(
    path: Path, inputs: Sequence[Array], reference: bool = False
) -> Mapping[int, float]:
    """Returns, by tensor, the fraction of odt's integers more than one step from LiteRT's."""
    theirs = litert_integers(path, inputs, reference)
    fractions = {}
    for i, ours in odt_integers(path, inputs).items():
        difference = ours.astype(np.int64).reshape(-1) - theirs[i].astype(np.int64).reshape(-1)
        fractions[i] = float(np.mean(np.abs(difference) > 1))
    return fractions
