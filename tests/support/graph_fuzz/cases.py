"""Random problems: a graph of random operators, samples, and losses on its outputs."""

from dataclasses import dataclass

import numpy as np

from odt.kernels.rows.opdef import Array
from support.graph_fuzz.computing import COMPUTING
from support.graph_fuzz.growing import Growth, UnfitError
from support.graph_fuzz.reference import Problem, origin
from support.graph_fuzz.shaping import SHAPING

# ordinary: axis 0 is the batch. moved: it is moved, folded, buried. batched: ordinary, in a file
# that was made for several samples.
KINDS = ("ordinary", "moved", "batched")
TABLE = {**COMPUTING, **SHAPING}
CIRCLE_ONLY = ("INSTANCE_NORM", "RMS_NORM", "ROPE")
IMAGES = (
    *("CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "AVERAGE_POOL_2D"),
    *("MAX_POOL_2D", "L2_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    *("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "INSTANCE_NORM", "ROPE"),
)
MOVES = (
    *("TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "CONCATENATION", "TILE", "BROADCAST_TO", "PACK"),
    *("STRIDED_SLICE", "STRIDED_SLICE", "REVERSE_V2", "ADD", "MUL", "MAXIMUM", "SPACE_TO_BATCH_ND"),
)
CROSS_ENTROPIES = ("categorical_crossentropy", "sparse_categorical_crossentropy")


@dataclass(frozen=True)
class Case:
    """A problem, and how its file is written.

    Attributes:
        seed: with the kind, what it is drawn from.
        suffix: .circle or .tflite.
        file_batch: samples that the file's shapes hold.
    """

    kind: str
    seed: int
    problem: Problem
    suffix: str
    file_batch: int

    def __str__(self) -> str:
        p = self.problem
        return (
            f"{self.kind} {self.seed}: {len(p.inputs[0])} samples, {self.file_batch} in the file, "
            f"{self.suffix}, {', '.join(p.losses)}, {p.reduction}\n{p.graph}"
        )


def draw_case(kind: str, seed: int) -> Case:
    """The same for a kind and a seed each time."""
    g = Growth(np.random.default_rng([KINDS.index(kind), seed]), first=0 if kind == "moved" else 1)
    _inputs(g)
    _grow(g, g.between(2, 9))
    g.outputs = _outputs(g)
    file_batch = g.between(2, 3) if kind == "batched" else 1
    problem = _problem(g, file_batch * g.between(1, 4) if kind == "batched" else g.between(2, 9))
    circle = any(n.op in CIRCLE_ONLY for n in g.nodes) or g.chance(0.5)
    return Case(kind, seed, problem, ".circle" if circle else ".tflite", file_batch)


def _inputs(g: Growth) -> None:
    for _ in range(g.choice((1, 1, 2))):
        image = (1, g.between(2, 6), g.between(2, 6), g.between(1, 4))
        shapes = (1, g.between(2, 8)), (1, g.between(2, 5), g.between(2, 6)), image, image
        g.unused.append(g.input(*g.choice(shapes)))


def _grow(g: Growth, nodes: int) -> None:
    """Adds nodes; one at least with weights, and one that moves axis 0 where that is wanted."""
    wanted = ["FULLY_CONNECTED", *(g.choice(MOVES) for _ in range(2 - 2 * g.first))]
    start = len(g.nodes)
    for _ in range(20 * nodes):
        x = _next(g)
        op = g.choice([*TABLE])
        if wanted and g.chance(0.4):
            op = g.choice(wanted)
        elif g.values[x].ndim == 4 and g.chance(0.5):
            op = g.choice(IMAGES)
        try:
            with g.attempt():
                TABLE[op](g, op, x)
        except UnfitError:
            continue
        if op in wanted:
            wanted.remove(op)
        if len(g.nodes) - start >= nodes * (2 if wanted else 1):
            break


def _next(g: Growth) -> int:
    """Mostly a tensor that nothing reads yet."""
    unused = [i for i in g.unused if g.values[i].ndim]
    if unused and g.chance(0.7):
        return g.choice(unused)
    made = [*g.inputs, *(i for n in g.nodes for i in n.outputs)]
    floats = [i for i in made if g.values[i].dtype.kind == "f" and g.values[i].ndim]
    return g.choice([i for i in floats if not _is_constant(g, i)])


def _is_constant(g: Growth, i: int) -> bool:
    """Whether a tensor depends on no input."""
    return i in g.constants or next(
        (all(_is_constant(g, k) for k in n.inputs) for n in g.nodes if i in n.outputs), False
    )


def _outputs(g: Growth) -> list[int]:
    """Up to three of the tensors that nothing reads, with axis 0 the batch."""
    ends = [i for i in g.unused if i not in g.inputs and not _is_constant(g, i)]
    chosen = ends[-1:] + [i for i in ends[:-1] if g.chance(0.5)][:2]
    found = []
    for i in chosen:
        x = i if g.values[i].shape[:1] == (1,) else g.reshape(i, 1, -1)
        if g.values[x].ndim > 1 and g.chance(0.3):
            x = g.add("SOFTMAX", (x,), beta=1.0) if g.chance(0.6) else g.add("LOGISTIC", (x,))
        found.append(x)
    return found


def _problem(g: Growth, samples: int) -> Problem:
    def draw(i: int) -> Array:
        shape = samples, *g.values[i].shape[1:]
        if g.values[i].dtype.kind == "i":
            return np.asarray(g.rng.integers(0, 6, shape).astype(np.int32))
        return np.asarray(g.rng.normal(size=shape).astype(np.float32))

    losses = tuple(_loss(g, i) for i in g.outputs)
    targets = tuple(
        _targets(g, i, name, samples) for i, name in zip(g.outputs, losses, strict=True)
    )
    weights = tuple(g.choice((1.0, 1.0, 0.5)) for _ in losses)
    reduction = g.choice(("sum_over_batch_size", "sum"))
    return Problem(g, tuple(map(draw, g.inputs)), targets, losses, weights, reduction)


def _loss(g: Growth, output: int) -> str:
    node, several = origin(g, output), g.values[output].ndim > 1
    last = node.op if node else ""
    if several and (last == "SOFTMAX" or g.chance(0.15)):
        return g.choice(CROSS_ENTROPIES)
    if several and last != "SOFTMAX" and (last == "LOGISTIC" or g.chance(0.1)):
        return "binary_crossentropy"
    return "mean_squared_error"


def _targets(g: Growth, output: int, loss: str, samples: int) -> Array:
    shape = samples, *g.values[output].shape[1:]
    if loss == "sparse_categorical_crossentropy":
        return np.asarray(g.rng.integers(0, shape[-1], shape[:-1]).astype(np.int32))
    if loss == "categorical_crossentropy":
        return np.asarray(g.rng.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32))
    if loss == "binary_crossentropy":
        return np.asarray(g.rng.integers(0, 2, shape).astype(np.float32))
    return np.asarray(g.rng.normal(size=shape).astype(np.float32))
