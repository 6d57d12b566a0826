"""LiteRT's forward pass of a batch, on one thread."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

Arrays = Sequence[np.ndarray]
Forward = Callable[[], Any]


def forward_pass(
    path: str, entry: dict[str, Any], inputs: Arrays, times: int
) -> tuple[Forward, int]:
    """Returns a forward pass, and how many of them compute the batch.

    The inputs are resized to the whole batch if the file allows it.

    Args:
        path: the model.
        entry: its entry in tools/shipped_models.toml.
        inputs: the batch.
        times: number of forward passes that compute the batch if inputs are not resized.
    """
    if "signature" in entry:
        run = Interpreter(path, num_threads=1).get_signature_runner(entry["signature"])
        details = run.get_input_details().items()
        ones = {name: np.ones(d["shape"], d["dtype"]) for name, d in details}
        return lambda: run(**ones), times
    shapes = list(entry.get("input_shapes", {}).values())
    one = _interpreter(path, inputs, shapes, 1)
    with suppress(RuntimeError, ValueError):  # the file does not allow it
        whole = _interpreter(path, inputs, shapes, times)
        forwards = [_forward(model, inputs) for model in (one, whole)]
        sizes = [[a.size for a in forward()] for forward in forwards]
        if sizes[1] == [size * times for size in sizes[0]]:
            return forwards[1], 1
    return _forward(one, inputs), times


def _interpreter(
    path: str, inputs: Arrays, shapes: Sequence[Sequence[int]], times: int
) -> Interpreter:
    """Returns an interpreter that has run once; its inputs hold `times` batches of the file."""
    model = Interpreter(path, num_threads=1)
    details = model.get_input_details()
    input_shapes = [list(shape) for shape in shapes] or [list(d["shape"]) for d in details]
    for d, shape in zip(details, input_shapes, strict=True):
        shape[0] *= times
        if shape != list(d["shape"]):
            model.resize_tensor_input(d["index"], shape)
    model.allocate_tensors()
    _forward(model, inputs)()
    return model


def _forward(model: Interpreter, inputs: Arrays) -> Forward:
    """Returns a function that sets the inputs and computes the outputs."""
    values_by_index = []
    for d, values in zip(model.get_input_details(), inputs, strict=True):
        part = values.reshape(-1)[: int(np.prod(d["shape"]))]
        values_by_index.append((d["index"], part.reshape(d["shape"]).astype(d["dtype"])))
    results = [d["index"] for d in model.get_output_details()]

    def forward() -> list[np.ndarray]:
        for index, values in values_by_index:
            model.set_tensor(index, values)
        model.invoke()
        return [model.get_tensor(index) for index in results]

    return forward
