"""How operators that move, cut, join and repeat values are drawn, where a tensor x is there.

They change axis 0 where they may (Growth.first).
"""

import numpy as np

from support.graph_fuzz.growing import Draw, Growth, Options, UnfitError, entries

SHAPING: dict[str, Draw] = {}
draws = entries(SHAPING)


@draws("RESHAPE")
def reshape(g: Growth, op: str, x: int) -> None:
    shape = [1] * g.first + g.factors(g.values[x].size)
    if g.chance(0.3):
        shape[g.between(0, len(shape) - 1)] = -1
    target = g.constant(shape) if shape[0] == -1 else g.of_batch(shape)
    options: Options = {"new_shape": tuple(shape)} if g.chance(0.5) else {}
    g.add(op, (x, target), **options)


@draws("SHAPE")
def reshape_by_arithmetic(g: Growth, op: str, x: int) -> None:
    """RESHAPE to (N, -1), with N taken from SHAPE, as converters write it."""
    ends = [g.constant([k]) for k in (0, 1, 1)]
    lead = g.add("STRIDED_SLICE", (g.add(op, (x,), out_type=2), *ends), shrink_axis_mask=1)
    shape = g.add("PACK", (lead, g.constant(-1)), axis=0, values_count=2)
    g.add("RESHAPE", (x, shape))


@draws("SQUEEZE")
def squeeze(g: Growth, op: str, x: int) -> None:
    ones = [k for k in range(g.first, g.values[x].ndim) if g.shape(x)[k] == 1]
    g.add(op, (x,), squeeze_dims=[g.signed(g.choice(ones), g.values[x].ndim)])


@draws("EXPAND_DIMS")
def expand_dims(g: Growth, op: str, x: int) -> None:
    rank = g.values[x].ndim + 1
    g.add(op, (x, g.constant(g.signed(g.between(g.first, rank - 1), rank))))


@draws("TRANSPOSE")
def transpose(g: Growth, op: str, x: int) -> None:
    axes = range(g.first, g.values[x].ndim)
    g.transpose(x, *range(g.first), *(int(k) for k in g.rng.permutation(axes)))


@draws("CONCATENATION")
def concatenation(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    parts = [x, *(g.alike(x, axis) for _ in range(g.between(0, 2)))]
    if g.chance(0.2) and not g.first:
        parts.append(g.operand(*g.shape(x)))
    parts = [parts[int(k)] for k in g.rng.permutation(len(parts))]
    g.add(op, parts, g.activation(), axis=g.signed(axis, g.values[x].ndim))


@draws("PACK")
def pack(g: Growth, op: str, x: int) -> None:
    parts = [x, *(g.alike(x, -1) for _ in range(g.between(0, 2)))]
    rank = g.values[x].ndim + 1
    axis = g.signed(g.between(g.first, rank - 1), rank)
    g.add(op, parts, axis=axis, values_count=len(parts))


@draws("UNPACK")
def unpack(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    count = g.shape(x)[axis]
    if count > 6:
        raise UnfitError
    g.add(op, (x,), outputs=count, axis=g.signed(axis, g.values[x].ndim), num=count)


@draws("SPLIT")
def split(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    count = g.choice([n for n in (1, 2, 3) if g.shape(x)[axis] % n == 0])
    g.add(op, (g.constant(axis), x), outputs=count, num_splits=count)


@draws("SPLIT_V")
def split_v(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    cut = g.between(1, g.shape(x)[axis] - 1)
    sizes = [cut, g.choice((-1, g.shape(x)[axis] - cut))]
    g.add(op, (x, g.constant(sizes), g.constant(axis)), outputs=2, num_splits=2)


@draws("SLICE")
def cut(g: Growth, op: str, x: int) -> None:
    begin, size = [0] * g.first, [*g.shape(x)[: g.first]]
    for n in g.shape(x)[g.first :]:
        begin.append(g.between(0, n - 1))
        size.append(g.choice((-1, g.between(1, n - begin[-1]))))
    g.add(op, (x, g.constant(begin), g.of_batch(size)))


@draws("STRIDED_SLICE")
def strided_slice(g: Growth, op: str, x: int) -> None:
    entries: list[tuple[int, int, int]] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask"), 0)

    def entry(begin: int, end: int, stride: int, *names: str) -> None:
        for name in names:
            masks[f"{name}_mask"] |= 1 << len(entries)
        entries.append((begin, end, stride))

    for axis, n in enumerate(g.shape(x)):
        if axis >= g.first and g.chance(0.15):
            entry(0, 1, 1, "new_axis")
        if axis < g.first:
            entry(0, n, 1, "end", *(["begin"] if g.chance(0.5) else []))
        elif g.chance(0.15):
            entry(g.between(-n, n - 1), 0, 1, "shrink_axis")
        elif g.chance(0.3):
            entry(-1, -n - 1, -1)
        else:
            low = g.between(0, n - 1)
            entry(low, g.between(low + 1, n), g.between(1, 2))
    ends = [g.constant(v) for v in zip(*entries, strict=True)]
    options: Options = {**masks}
    g.add(op, (x, *ends), **options)


@draws("GATHER")
def gather(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    picks = g.rng.integers(0, g.shape(x)[axis], g.between(1, 4))
    g.add(op, (x, g.constant(picks)), axis=g.signed(axis, g.values[x].ndim))


@draws("EMBEDDING_LOOKUP", "ONE_HOT")
def lookup(g: Growth, op: str, x: int) -> None:
    """Of an input of its own; x is left alone."""
    if op == "ONE_HOT":
        on, off = g.constant(np.array(1.0)), g.constant(np.array(0.0))
        g.add(op, (g.ids((1, g.between(1, 4)), 6), g.constant(6), on, off), axis=-1)
        return
    table = g.operand(6, g.between(2, 4), scale=0.7)
    if g.chance(0.5):
        g.add(op, (g.ids((1,), 6), table))
    else:
        g.add("GATHER", (table, g.ids((1, g.between(1, 4)), 6)), axis=0)


@draws("PAD", "PADV2")
def pad(g: Growth, op: str, x: int) -> None:
    pairs = [[0, 0]] * g.first + [[g.between(0, 1), g.between(0, 2)] for _ in g.shape(x)[g.first :]]
    value = [g.constant(np.array(0.5))] if op == "PADV2" else []
    g.add(op, (x, g.constant(pairs), *value))


@draws("MIRROR_PAD")
def mirror_pad(g: Growth, op: str, x: int) -> None:
    mode = g.between(0, 1)
    most = [0] * g.first + [min(2, n - 1 + mode) for n in g.shape(x)[g.first :]]
    pairs = [[g.between(0, n), g.between(0, n)] for n in most]
    g.add(op, (x, g.constant(pairs)), mode=mode)


@draws("TILE")
def tile(g: Growth, op: str, x: int) -> None:
    axis = g.axis(x)
    multiples = [g.between(2, 3) if k == axis else 1 for k in range(g.values[x].ndim)]
    g.add(op, (x, g.constant(multiples)))


@draws("BROADCAST_TO")
def broadcast_to(g: Growth, op: str, x: int) -> None:
    shape = [n if n > 1 or k < g.first else g.between(1, 3) for k, n in enumerate(g.shape(x))]
    if not g.first and g.chance(0.3):
        shape.insert(0, g.between(1, 3))
    g.add(op, (x, g.of_batch(shape)))


@draws("REVERSE_V2")
def reverse(g: Growth, op: str, x: int) -> None:
    g.add(op, (x, g.constant(g.axes(x))))
