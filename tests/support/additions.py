"""Example additions to the project, as in CONTRIBUTING.md: new files, and edits of files."""

LOSS = '''"""Log-cosh: a sample's loss is the mean of log(cosh(x − t)) over its elements.

x (N, …)    t like x    scale (1,)    loss (1,)

loss = scale · Σₙ meanᵢ log(cosh(xₙᵢ − tₙᵢ))        dx = scale tanh(x − t) / D, D elements a sample
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.rows.lossdef import LossDef
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def difference(attrs: None, s: Specs) -> Specs:
    return {"difference": s["x"]}


def forward(
    attrs: None, *, x: Array, t: Array, scale: Array, loss: Array, difference: Array
) -> None:
    np.subtract(x, t, out=difference)
    np.cosh(difference, out=difference)
    np.log(difference, out=difference)
    loss[0] = np.sum(difference) * (scale[0] / (x.size // x.shape[0]))


def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    np.tanh(dx, out=dx)
    np.multiply(dx, scale[0] / (x.size // x.shape[0]), out=dx)


LOSS = LossDef(
    op=OpDef(
        "log_cosh",
        inputs=("x", "t", "scale"),
        infer=infer,
        forward=Kernel(forward, reads=("x", "t", "scale"), writes=("loss",), workspace=difference),
        grads={"x": Kernel(grad_x, reads=("x", "t", "scale"), writes=("dx",))},
        stops=("t", "scale"),
        outputs=("loss",),
    ),
    formula="mean of log cosh(x − t)",
)
'''

LOSS_TABLE = '''"""Log-cosh, against its formula in float64."""

import numpy as np

from op_db import OpInfo, Options, Sample


def log_cosh(o: Options, i):
    values = np.log(np.cosh(i["x"] - i["t"]))
    return {"loss": np.sum([np.mean(v) for v in values]) * i["scale"]}


def dense(label, shape):
    return Sample(label, {"x": shape, "t": shape, "scale": np.array([0.3])}, {}, {}, ("scale",))


INFO = OpInfo(
    "log_cosh",
    log_cosh,
    samples=(dense("rank 2", (3, 4)), dense("rank 1", (4,))),
    large=dense("large", (512, 512)),
    loose=10,
)
'''


OPTIMIZER = '''"""Signum: sign of the momentum.

m ← β m + (1 − β) g        p ← p − lr sign(m)

Source: Bernstein et al. (2018), signSGD.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import HyperParameter, UpdateRule


@dataclass(frozen=True, slots=True)
class SignumAttrs:
    beta: float = 0.9


def slots(attrs: SignumAttrs) -> tuple[str, ...]:
    return ("m",)


def run(
    attrs: SignumAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    m: Array,
) -> None:
    for at in range(0, p.size, TILE):
        here = slice(at, at + TILE)
        pt, gt, mt, wt = p[here], g[here], m[here], work[0, : min(TILE, p.size - at)]
        np.subtract(gt, mt, out=wt)
        np.multiply(wt, 1 - attrs.beta, out=wt)
        np.add(mt, wt, out=mt)
        np.sign(mt, out=wt)
        np.multiply(wt, learning_rate, out=wt)
        np.subtract(pt, wt, out=pt)


RULE = UpdateRule(
    "signum",
    SignumAttrs,
    slots,
    run,
    work=1,
    hyper_parameters=(HyperParameter("beta", "Decay rate of the momentum", most=1, below=True),),
)
'''

OPTIMIZER_CASE = """
def signum(p: float, g: float, t: int, state: dict[str, float]) -> float:
    state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
    return p - RATE * float(np.sign(state["m"]))


CASES = {
    "signum": ("signum", {}, signum),
"""

METRIC = '''"""Maximum error: greatest |y − t| over all values.

Source: scikit-learn's max_error.
"""

import numpy as np

from odt.kernels.rows.metricdef import NUMBERS, Metric, MetricDef, OutputForm, blocks
from odt.kernels.rows.opdef import Array


class MaxError(Metric):
    def __init__(self, form: OutputForm) -> None:
        super().__init__(form)
        self.greatest = 0.0

    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, 1):
            self.greatest = max(self.greatest, float(np.abs(a - b).max()))

    def value(self) -> float:
        return self.greatest


METRIC = MetricDef("max_error", MaxError, "greatest |y − t|", (NUMBERS,))
'''
METRIC_CASE = """    "max_error": (NUMBERS, column(1, 4), column(0, 6), 2.0),
    "categorical_accuracy": """

PASS = '''"""Leaves out two NEG in a row: −(−x) = x."""

from dataclasses import replace

from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import Graph, LoweredGraph


def drop_double_negations(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph whose nodes read x instead of −(−x); `graph` itself if none does."""
    negations = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n.op == "NEG"}
    equal = {y: negations[x] for y, x in negations.items() if x in negations}
    if not equal:
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        inputs = tuple(equal.get(i, i) for i in node.inputs)
        builder.nodes.append(replace(node, inputs=inputs))
    builder.drop_unread()
    return builder.graph()
'''
PASS_TEST = '''"""A value that is negated twice is read as it is."""

from support.lowering import lower
from support.networks import Net


def test_two_negations_are_left_out() -> None:
    net = Net()
    x = net.input(1, 4)
    twice = net.add("NEG", (net.add("NEG", (x,), (1, 4)),), (1, 4))
    graph = lower(net.graph(net.dense(twice, 2)), 3)
    assert [node.op for node in graph.nodes] == ["FULLY_CONNECTED"]
'''

FORMAT = '''"""JSON lines: {"x": values, "y": values} for each sample."""

import json

import numpy as np

from odt.core.storage.reading import reading
from odt.datasets.source import ArrayPart, Source
from odt.datasets.source_format import Opening, SourceFormat


def open_file(opening: Opening) -> Source:
    """Opens a file of JSON lines."""
    with reading(opening.text, "must be JSON lines"):
        rows = [json.loads(line) for line in opening.path.read_text().splitlines()]
        x, y = (np.array([row[name] for row in rows], np.float32) for name in ("x", "y"))
    part = ArrayPart([x], [y], has_classes=False)
    return Source(opening.path.stem, "features", {"all": part})


FORMATS = (SourceFormat("jsonl", open_file, (".jsonl",), contents="JSON object in each line"),)
'''
FORMAT_TEST = '''"""JSON lines."""

import json
from pathlib import Path

from odt.datasets.open_source import open_source
from odt.datasets.source_format import Opening


def test_lines_are_samples(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text("".join(json.dumps({"x": [k], "y": [2 * k]}) + "\\n" for k in range(3)))
    part = open_source(Opening(str(path))).parts["all"]
    assert part.length == 3
'''

INTEGER_KERNEL = '''"""INTEGER_ABS: y = |x| of quantized tensors, from a table.

x, y any shape, of one type of 8 bits

y = clip(rint(|x − z_x| s_x / s_y) + z_y)
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.integer_table import table_row
from odt.kernels.families.requantize import Rounding, quantized, rounding
from odt.kernels.rows.opdef import Array, Options


@dataclass(frozen=True, slots=True)
class IntegerAbsAttrs:
    """Quotient of the scales, the zero point of x, and the rounding of y."""

    ratio: float
    zero: int
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerAbsAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    return IntegerAbsAttrs(x.scale / y.scale, x.zero, rounding(options))


def values(attrs: IntegerAbsAttrs, x: Array) -> Array:
    return np.rint(np.abs(x - attrs.zero) * attrs.ratio) + attrs.to.zero


OP = table_row("INTEGER_ABS", attrs, values)
'''
QUANTIZED = "kernels/ops/abs.py", "kernels/integer/abs.py"
VERSIONS = '    quantized=QuantizedDef(versions={"INT8": 2, "UINT8": 2, "INT16": 3}),\n'
INTEGER_FACTS = """    quantized=QuantizedDef(
        versions={"INT8": 2, "UINT8": 2, "INT16": 3}, int8=True, bytes_only=True
    ),
"""

METRICS = "kernels/metrics/max_error.py", "tests/kernels/test_metrics.py"
OPTIMIZER_TESTS = "tests/kernels/test_optimizers.py"
OPTION = "core/options/training_options.py", "core/runtime/optimizer.py"
OPTION_ROW = """    least_rate: float = option(
        0.0,
        Number("a number of at least 0"),
        OPTIMIZER,
        "Smallest learning rate of `schedule=`; 0 for none.",
        stored=CHECKPOINT,
        federated=True,
    )
    accumulate: int = option("""
RUN_OPTION = (
    "core/options/fit_options.py",
    "src/odt/training/trainer.py",
    "src/odt/training/fitting.py",
)
RUN_OPTION_ROW = """    target_loss: float | None = option(
        None,
        Number("a number of at least 0"),
        VALIDATION,
        "Target: stop after an epoch whose training loss is at most this.",
    )
    patience: int | None = option("""
RUN_OPTION_USE = """                target = self.options.target_loss
                if target is not None and epoch.training.loss <= target:
                    break
                if epoch.number < self.epochs:
"""
PASSES = "core/lowering/passes/order.py"
PASS_ROW = """    Pass("drop_double_negations", ("NEG",)),
    Pass("merge_norms","""
NEW = {
    "kernels/losses/log_cosh.py": LOSS,
    "tests/op_db/log_cosh.py": LOSS_TABLE,
    "kernels/optimizers/signum.py": OPTIMIZER,
    METRICS[0]: METRIC,
    "src/odt/datasets/formats/json_lines.py": FORMAT,
    "tests/datasets/test_json_lines.py": FORMAT_TEST,
    QUANTIZED[1]: INTEGER_KERNEL,
    "core/lowering/passes/drop_double_negations.py": PASS,
    "tests/core/lowering/passes/test_drop_double_negations.py": PASS_TEST,
}
EDITED = {
    OPTION[0]: {"    accumulate: int = option(": OPTION_ROW},
    OPTION[1]: {
        "clipping: Clipping = NO_CLIPPING,\n": (
            "clipping: Clipping = NO_CLIPPING,\n        least_rate: float = 0.0,\n"
        ),
        "self.clipping = clipping\n": (
            "self.clipping = clipping\n        self.least_rate = least_rate\n"
        ),
        "return self.schedule(step - 1) if self.schedule else self.learning_rate": (
            "scheduled = self.schedule(step - 1) if self.schedule else self.learning_rate\n"
            "        return max(scheduled, self.least_rate)"
        ),
        "rule, rule.attrs(**info.hyper_parameters), rate, schedule, clipping)": (
            "\n        rule,\n        rule.attrs(**info.hyper_parameters),\n        rate,\n"
            "        schedule,\n        clipping,\n        info.least_rate,\n    )"
        ),
    },
    RUN_OPTION[0]: {"    patience: int | None = option(": RUN_OPTION_ROW},
    RUN_OPTION[1]: {
        "        patience: int | None = None,\n": (
            "        patience: int | None = None,\n        target_loss: float | None = None,\n"
        ),
        "            patience: early stopping": (
            "            target_loss: training loss that ends training after an epoch.\n"
            "            patience: early stopping"
        ),
        "patience=patience,\n": "patience=patience,\n            target_loss=target_loss,\n",
    },
    RUN_OPTION[2]: {"                if epoch.number < self.epochs:\n": RUN_OPTION_USE},
    OPTIMIZER_TESTS: {"CASES = {\n": OPTIMIZER_CASE.lstrip("\n")},
    QUANTIZED[0]: {VERSIONS: INTEGER_FACTS},
    METRICS[1]: {'    "categorical_accuracy": ': METRIC_CASE},
    PASSES: {
        '    Pass("merge_norms",': PASS_ROW,
    },
}
TOUCHED = {
    "option": OPTION,
    "option of a run": RUN_OPTION,
    "loss": ("kernels/losses/log_cosh.py", "tests/op_db/log_cosh.py"),
    "optimizer": ("kernels/optimizers/signum.py", OPTIMIZER_TESTS),
    "metric": METRICS,
    "quantized operator": QUANTIZED,
    "data format": (
        "src/odt/datasets/formats/json_lines.py",
        "tests/datasets/test_json_lines.py",
    ),
    "lowering pass": (
        "core/lowering/passes/drop_double_negations.py",
        PASSES,
        "tests/core/lowering/passes/test_drop_double_negations.py",
    ),
}
