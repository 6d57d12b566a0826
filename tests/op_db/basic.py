"""FULLY_CONNECTED, RESHAPE, RELU and its relatives, SOFTMAX, TANH."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample

INT32 = np.dtype(np.int32)


def fully_connected(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    keep = o.get("keep_num_dims", False)
    y = np.einsum("ni,oi->no", x.reshape(-1, w.shape[1]), w)
    if "b" in i:
        y = y + i["b"]
    return {"y": y.reshape(*x.shape[:-1], -1) if keep else y}


def reshape(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    target = o["shape"] if "shape" in o else o["new_shape"]
    return {"y": i["x"].reshape(tuple(np.ravel(target)))}


def relu(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] > 0, i["x"], 0)}


def relu6(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] < 0, 0, np.where(i["x"] > 6, 6, i["x"]))}


def relu_n1_to_1(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] < -1, -1, np.where(i["x"] > 1, 1, i["x"]))}


def tanh(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": (np.exp(i["x"]) - np.exp(-i["x"])) / (np.exp(i["x"]) + np.exp(-i["x"]))}


def softmax(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    e = np.exp(o.get("beta", 1.0) * i["x"])
    return {"y": e / e.sum(-1, keepdims=True)}


def log_softmax(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.log(softmax({}, i)["y"])}


def l2_normalization(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    norm = (i["x"] ** 2).sum(-1, keepdims=True) ** 0.5
    return {"y": i["x"] / np.where(norm > 1e-6, norm, 1e-6)}


LAST_AXIS = (
    Refusal("float", {"x": TensorSpec((2, 3), INT32)}),
    Refusal("(…, K)", {"x": ()}),
    Refusal("(…, K)", {"x": (2, 0)}),
)
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "FULLY_CONNECTED",
        fully_connected,
        samples=(
            Sample("bias", {"x": (3, 4), "w": (2, 4), "b": (2,)}, constants=("w", "b")),
            Sample("no bias", {"x": (3, 4), "w": (2, 4)}, constants=("w",)),
            Sample("rank 3", {"x": (2, 3, 4), "w": (5, 4), "b": (5,)}, rebatches=False),
            Sample("rows are samples", {"x": (2, 2, 2), "w": (5, 4)}, constants=("w",)),
            Sample("keep", {"x": (2, 3, 4), "w": (5, 4)}, {"keep_num_dims": True}, {}, ("w",)),
            Sample("many rows", {"x": (40, 5), "w": (19, 5), "b": (19,)}, constants=("w", "b")),
            Sample("rows of two samples", {"x": (4, 2), "w": (3, 4)}, constants=("w",), mixes=True),
            Sample("units are samples", {"x": (3, 4), "w": (2, 4)}, constants=("x",), mixes=True),
            Sample("square", {"x": (3, 3), "w": (3, 3), "b": (3,)}, constants=("w", "b")),
            Sample("one", {"x": (1, 1), "w": (1, 1), "b": (1,)}, constants=("w", "b")),
        ),
        large=Sample("large", {"x": (256, 1024), "w": (256, 1024), "b": (256,)}),
        also_large=(Sample("square", {"x": (512, 512), "w": (512, 512), "b": (512,)}),),
        refusals=(
            Refusal("with one I", {"x": (3, 4), "w": (2, 5)}),
            Refusal("with one I", {"x": (3, 4), "w": (4,)}),
            Refusal("keep_num_dims", {"x": (4, 2), "w": (3, 4)}, {"keep_num_dims": True}),
            Refusal("b must be (2,)", {"x": (3, 4), "w": (2, 4), "b": (3,)}),
            Refusal("one dtype", {"x": TensorSpec((3, 4), INT32), "w": (2, 4)}),
            Refusal("weights_format", {"x": (3, 4), "w": (2, 4)}, {"weights_format": 1}),
        ),
    ),
    OpInfo(
        "RESHAPE",
        reshape,
        samples=(
            Sample("flat", {"x": (1, 2, 3)}, statics={"shape": np.array([1, 6], np.int32)}),
            Sample("-1 is the batch", {"x": (1, 2, 3)}, statics={"shape": np.array([-1, 6])}),
            Sample("-1 is not the batch", {"x": (2, 3, 2)}, statics={"shape": np.array([2, -1])}),
            Sample("options", {"x": (2, 6)}, {"new_shape": (2, 3, 2)}),
            Sample("rows from a sample", {"x": (1, 6)}, {"new_shape": (2, 3)}),
            Sample("one of several", {"x": (2, 3)}, {"new_shape": (1, 6)}, mixes=True),
            Sample("to a scalar", {"x": (1,)}, {"new_shape": ()}, rebatches=False),
            Sample("integers", {"x": np.arange(6, dtype=np.int32)}, {"new_shape": (6, 1)}),
        ),
        large=Sample("large", {"x": (64, 4096)}, {"new_shape": (64, 64, 64)}),
        refusals=(
            Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (4, 2)}),
            Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-1, -1)}),
            Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-1, 4)}),
            Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-2, -3)}),
        ),
    ),
    OpInfo(
        "RELU",
        relu,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("rank 4", {"x": (1, 2, 3, 2)}),
            Sample("integers", {"x": np.array([[-3, 0, 9]], np.int32)}),
        ),
        large=Sample("large", {"x": (512, 1024)}),
        refusals=(Refusal("must be a number", {"x": TensorSpec((2, 3), np.dtype(bool))}),),
    ),
    OpInfo(
        "RELU6",
        relu6,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("both sides", {"x": np.array([[-9.0, -0.1, 0.1, 5.9, 6.1, 9.0]])}),
        ),
        large=Sample("large", {"x": (512, 1024)}),
    ),
    OpInfo(
        "RELU_N1_TO_1",
        relu_n1_to_1,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("both sides", {"x": np.array([[-9.0, -1.1, -0.9, 0.9, 1.1, 9.0]])}),
        ),
        large=Sample("large", {"x": (512, 1024)}),
    ),
    OpInfo(
        "TANH",
        tanh,
        (Sample("rank 2", {"x": (3, 4)}),),
        Sample("large", {"x": (512, 1024)}),
        refusals=(Refusal("float", {"x": TensorSpec((2, 3), INT32)}),),
    ),
    OpInfo(
        "SOFTMAX",
        softmax,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("rank 4, beta", {"x": (2, 2, 2, 3)}, {"beta": 0.7}),
            Sample("rank 1", {"x": (4,)}, mixes=True),
            Sample("one class", {"x": (2, 1)}),
        ),
        large=Sample("large", {"x": (512, 1024)}),
        refusals=LAST_AXIS,
    ),
    OpInfo(
        "LOG_SOFTMAX",
        log_softmax,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("rank 4", {"x": (2, 2, 2, 3)}),
            Sample("rank 1", {"x": (4,)}, mixes=True),
        ),
        large=Sample("large", {"x": (512, 1024)}),
        refusals=LAST_AXIS,
        loose=4,
    ),
    OpInfo(
        "L2_NORMALIZATION",
        l2_normalization,
        samples=(
            Sample("rank 2", {"x": (3, 4)}),
            Sample("rank 4", {"x": (2, 2, 2, 3)}),
            Sample("rank 1", {"x": (4,)}, mixes=True),
        ),
        large=Sample("large", {"x": (512, 1024)}),
        refusals=LAST_AXIS,
    ),
)
