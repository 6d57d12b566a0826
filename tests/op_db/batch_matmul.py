"""BATCH_MATMUL: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample


def batch_matmul(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    a = "...km" if o.get("adj_x", False) else "...mk"
    b = "...pk" if o.get("adj_y", False) else "...kp"
    return {"y": np.einsum(f"{a},{b}->...mp", i["a"], i["b"])}


TURNS: tuple[tuple[str, Options, tuple[int, ...], tuple[int, ...]], ...] = (
    ("", {}, (2, 3), (3, 4)),
    (", A turned", {"adj_x": True}, (3, 2), (3, 4)),
    (", B turned", {"adj_y": True}, (2, 3), (4, 3)),
    (", both turned", {"adj_x": True, "adj_y": True}, (3, 2), (4, 3)),
)

WIDE: tuple[tuple[str, Options, tuple[int, ...], tuple[int, ...]], ...] = (
    ("", {}, (10, 18), (18, 17)),
    (", A turned", {"adj_x": True}, (18, 10), (18, 17)),
    (", B turned", {"adj_y": True}, (10, 18), (17, 18)),
    (", both turned", {"adj_x": True, "adj_y": True}, (18, 10), (17, 18)),
)

# Fewer columns than the widest vector has floats, more than others.
NARROW: tuple[tuple[str, Options, tuple[int, ...], tuple[int, ...]], ...] = (
    ("", {}, (10, 18), (18, 9)),
    (", A turned", {"adj_x": True}, (18, 10), (18, 9)),
    (", B turned", {"adj_y": True}, (10, 9), (18, 9)),
    (", both turned", {"adj_x": True, "adj_y": True}, (9, 10), (18, 9)),
)

LEADS = (
    ("one for each", (3,), (3,)),
    ("two axes", (2, 3), (2, 3)),
    ("stretched", (2, 1), (2, 3)),
    ("stretched the other way", (2, 3), (2, 1)),
)

INFO = OpInfo(
    "BATCH_MATMUL",
    batch_matmul,
    samples=(
        *(
            Sample(label + turn, {"a": lead_a + a, "b": lead_b + b}, o)
            for turn, o, a, b in TURNS
            for label, lead_a, lead_b in LEADS
        ),
        *(
            Sample("B a constant" + turn, {"a": (2, 2, *a), "b": b}, o, constants=("b",))
            for turn, o, a, b in TURNS
        ),
        Sample("stretched, no columns", {"a": (2, 1, 2, 3), "b": (2, 3, 3, 0)}),
        *(
            Sample("A a constant" + turn, {"a": (1, *a), "b": (2, *b)}, o, constants=("a",))
            for turn, o, a, b in TURNS
        ),
        *(
            Sample("more than vectors" + turn, {"a": (2, *a), "b": (2, *b)}, o)
            for turn, o, a, b in WIDE
        ),
        *(Sample("9 columns" + turn, {"a": (2, *a), "b": (2, *b)}, o) for turn, o, a, b in NARROW),
        Sample("more than vectors, long", {"a": (2, 5, 18), "b": (18, 17)}, constants=("b",)),
        Sample("B of one", {"a": (2, 3, 2), "b": (1, 2, 2)}, constants=("b",)),
        Sample("rows are samples", {"a": (2, 3), "b": (3, 4)}, constants=("b",)),
        Sample("columns of A are not", {"a": (3, 2), "b": (3, 4)}, {"adj_x": True}, mixes=True),
        Sample("a sum over samples", {"a": (2, 3), "b": (4, 3)}, {"adj_y": True}, mixes=True),
        Sample("samples inside", {"a": (2, 3, 4), "b": (4, 5)}, constants=("a",), rebatches=False),
    ),
    large=Sample("large", {"a": (64, 64, 64), "b": (64, 64, 64)}),
    also_large=(
        Sample("long", {"a": (64, 64, 64), "b": (64, 64)}),
        Sample("turned", {"a": (64, 64, 64), "b": (64, 64)}, {"adj_x": True, "adj_y": True}),
        Sample("heads", {"a": (8, 4, 131, 33), "b": (8, 4, 131, 33)}, {"adj_y": True}),
        Sample("weighted heads", {"a": (8, 4, 131, 131), "b": (8, 4, 131, 50)}),
        Sample("narrow", {"a": (64, 100, 70), "b": (64, 10, 70)}, {"adj_y": True}),
        # In ranges of the depth, with columns and rows that do not fill tiles, and one at once.
        Sample("deep", {"a": (2, 101, 600), "b": (2, 600, 133)}),
        Sample("deep, A turned", {"a": (4, 1100, 28), "b": (4, 1100, 44)}, {"adj_x": True}),
        Sample("deep, B turned", {"a": (6, 17, 600), "b": (6, 75, 600)}, {"adj_y": True}),
        Sample("deep, narrow", {"a": (4, 90, 700), "b": (4, 700, 9)}),
        Sample("A of one", {"a": (1, 101, 75), "b": (40, 75, 133)}),
        Sample("A of one, turned", {"a": (75, 101), "b": (40, 75, 133)}, {"adj_x": True}),
        Sample("A of one, B turned", {"a": (1, 101, 300), "b": (7, 133, 300)}, {"adj_y": True}),
        Sample("A of one, narrow", {"a": (1, 300, 700), "b": (60, 700, 9)}),
        Sample("both of one turned", {"a": (60, 75, 101), "b": (1, 75, 133)}, {"adj_x": True}),
        Sample("long and odd", {"a": (30, 131, 50), "b": (50, 70)}),
    ),
    refusals=(
        Refusal("with one K", {"a": (2, 3), "b": (4, 2)}),
        Refusal("with one K", {"a": (2, 3), "b": (3, 2)}, {"adj_x": True}),
        Refusal("matching leading axes", {"a": (2, 2, 3), "b": (3, 3, 2)}),
        Refusal("matching leading axes", {"a": (3,), "b": (3, 2)}),
        Refusal(
            "matching leading axes",
            {"a": (2, 3), "b": TensorSpec((3, 2), np.dtype(np.float64))},
        ),
    ),
    loose=4,
)
