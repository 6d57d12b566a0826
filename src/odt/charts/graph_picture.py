"""Picture of a model's graph as SVG: operators in layers, data from top to bottom.

Layers, order and positions follow Sugiyama, Tagawa and Toda, Methods for Visual Understanding of
Hierarchical System Structures (1981): longest paths, barycenters, and invisible points where an
edge passes a layer.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from odt.core.model.graph import Graph
from odt.core.recipe.inspection import Inspection
from odt.dataclass import dataclass
from odt.errors import OdtError, one_line

# Sizes in pixels.
HEIGHT, MIN_WIDTH = 46, 90  # of a box
GAP, LAYER_GAP = 16, 34  # between boxes of a layer, and between layers
PADDING = 16  # of the texts in a box, on both sides together
ASCENT, LINE = 11, 13  # of a text above its baseline, and distance of the texts in a box
LETTER, BOLD = 6.7, 8.8  # widths of letters
MARGIN = 16  # around the picture
POINT = 10  # width of an edge that passes a layer
SWEEPS = 8  # passes down and up that improve order and positions; few change after them
MAX_NAME = 32  # characters of a name
MAX_SHAPES = 2  # in a box, and names in the title of a stub
MAX_BOXES, MAX_POINTS = 20_000, 20_000  # of a picture: boxes, and points of edges between layers
STUB = 12  # length of what is drawn of other edges, at both ends
STYLE = (
    ".g{font:12px system-ui,sans-serif;color:#222}.g text{fill:currentColor;text-anchor:middle}"
    ".back{fill:#fff}.box{fill:#f2f4f7;stroke:#9aa5b4}.trained{fill:#cfe3f7;stroke:#1f6fb4}"
    ".end{fill:#e3f1e6;stroke:#2d8a4e}.op{font-weight:600}.small{font-size:11px;opacity:.8}"
    ".edge{fill:none;stroke:#8a94a3;stroke-width:1.3;marker-end:url(#odt-arrow)}"
    ".tip{fill:#8a94a3}"
    "@media(prefers-color-scheme:dark){.g{color:#ddd}.back{fill:#181818}"
    ".box{fill:#2a2e34;stroke:#5c6673}.trained{fill:#1d3f61;stroke:#6cb2f0}"
    ".end{fill:#1f3a27;stroke:#6fd08e}.edge{stroke:#7c8796}.tip{fill:#7c8796}}"
)
# The point of an edge, which ends at the border of a box.
ARROW = (
    '<defs><marker id="odt-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" '
    'markerHeight="6" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture.

    Attributes:
        kind: box, trained or end, for its colors.
        lines: texts, the first in bold.
    """

    kind: str
    lines: tuple[str, ...]

    @property
    def width(self) -> float:
        """Width in pixels, by the longest text."""
        widths = (LETTER * len(line) for line in self.lines)
        return max(MIN_WIDTH - PADDING, BOLD * len(self.lines[0]), *widths) + PADDING


def draw(graph: Graph, inspection: Inspection) -> str:
    """Returns the picture.

    Args:
        graph: the graph.
        inspection: shapes, and the parameters that train.

    Raises:
        OdtError: if the graph is too large.
    """
    boxes, edges = boxes_of(graph, inspection)
    if max(len(boxes), len(edges)) > MAX_BOXES:
        raise OdtError(
            f"`svg=`: must draw at most {MAX_BOXES} operators and connections, but the model has "
            f"{len(boxes)} and {len(edges)}. Draw parts of it, which odt cut writes."
        )
    layers, paths = layered(len(boxes), edges)
    # Boxes have the first numbers, and points of edges the others.
    widths = [box.width for box in boxes] + [POINT] * (sum(map(len, layers)) - len(boxes))
    x = positions(layers, paths, widths)
    width = max(x[k] + widths[k] / 2 for layer in layers for k in layer) + MARGIN
    y: dict[int, int] = {}
    for n, layer in enumerate(layers):
        y |= dict.fromkeys(layer, MARGIN + n * (HEIGHT + LAYER_GAP))
    height = MARGIN * 2 + len(layers) * (HEIGHT + LAYER_GAP) - LAYER_GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="g" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}"><style>{STYLE}</style>'
        f'{ARROW}<rect class="back" width="100%" height="100%"/>'
    ]
    parts += [_edge(path, x, y, len(boxes)) for path in paths]
    drawn = {(path[0], path[-1]) for path in paths}
    parts += _stubs([edge for edge in edges if edge not in drawn], x, y, boxes)
    for k, box in enumerate(boxes):
        left = x[k] - box.width / 2
        parts.append(
            f'<g><rect class="{box.kind}" x="{left:.1f}" y="{y[k]}" width="{box.width:.1f}" '
            f'height="{HEIGHT}" rx="6"/>'
        )
        top = y[k] + (HEIGHT - len(box.lines) * LINE) // 2
        for n, text in enumerate(box.lines):
            style = "small" if n else "op"
            line = top + ASCENT + n * LINE
            parts.append(f'<text class="{style}" x="{x[k]:.1f}" y="{line}">{escape(text)}</text>')
        parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def boxes_of(graph: Graph, inspection: Inspection) -> tuple[list[Box], list[tuple[int, int]]]:
    """Returns the boxes of inputs, operators and outputs, and the edges between their numbers."""
    boxes: list[Box] = []
    source: dict[int, int] = {}  # tensor → the box that makes it
    edges: list[tuple[int, int]] = []

    def shapes(tensors: Sequence[int]) -> str:
        texts = [str(inspection.specs[i].shape) for i in tensors[:MAX_SHAPES]]
        return " ".join([*texts, "…"] if len(tensors) > MAX_SHAPES else texts)

    def end(role: str, i: int) -> Box:
        name = one_line(graph.tensors[i].name, MAX_NAME) or f"tensor {i}"
        return Box("end", (role, name, shapes([i])))

    for i in graph.inputs:
        source[i] = len(boxes)
        boxes.append(end("input", i))
    for node in graph.nodes:
        count = inspection.values(inspection.trained.get(node.origin, ()))
        lines = [f"{node.origin} {node.op}", shapes(node.outputs)]
        if count:
            lines.append(f"{count:,} parameters")
        edges += sorted({(source[i], len(boxes)) for i in node.inputs if i in source})
        source |= dict.fromkeys(node.outputs, len(boxes))
        boxes.append(Box("trained" if count else "box", tuple(lines)))
    for i in graph.outputs:
        if i in source:
            edges.append((source[i], len(boxes)))
        boxes.append(end("output", i))
    return boxes, edges


def layered(
    count: int, edges: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], list[tuple[int, ...]]]:
    """Assigns boxes to layers by their longest path, and orders each layer.

    Args:
        count: number of boxes, in topological order.
        edges: pairs of boxes.

    Returns:
        The boxes of each layer, with further numbers for edges that pass it; and each edge as the
        numbers from its first to its last box.
    """
    depth = [0] * count  # the layer of each box; that of `a` is final before it is read
    for a, b in sorted(edges, key=lambda edge: edge[1]):
        depth[b] = max(depth[b], depth[a] + 1)
    # A box without inputs moves down to the layer above its first reader.
    first: dict[int, int] = {}
    for a, b in edges:
        first[a] = min(first.get(a, depth[b]), depth[b])
    read = {b for _, b in edges}
    for a in range(count):
        if a not in read and a in first:
            depth[a] = first[a] - 1
    layers: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for k in range(count):
        layers[depth[k]].append(k)
    # An edge gets a point in each layer that it passes.
    paths = []
    following = count
    for a, b in whole_edges(edges, depth):
        points = list(range(following, following + depth[b] - depth[a] - 1))
        for n, point in enumerate(points, depth[a] + 1):
            layers[n].append(point)
        following += len(points)
        paths.append((a, *points, b))
    # Sort each layer by the mean place of the neighbors in the layer before it.
    above, below = neighbors(paths)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for fixed, layer in _pairs(layers, down):
            place = {k: float(n) for n, k in enumerate(fixed)}
            near = above if down else below
            means = {k: _mean([place[j] for j in near[k]], len(fixed) / 2) for k in layer}
            layer.sort(key=means.__getitem__)
    return layers, paths


def whole_edges(edges: Sequence[tuple[int, int]], depth: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the edges that are drawn from end to end: the shortest, up to MAX_POINTS points.

    In a chain whose members all read one input, points would grow with the square of its length.
    """
    points = 0
    whole = set()
    for edge in sorted(set(edges), key=lambda e: depth[e[1]] - depth[e[0]]):
        points += depth[edge[1]] - depth[edge[0]] - 1
        if points > MAX_POINTS:
            break
        whole.add(edge)
    return [edge for edge in edges if edge in whole]


def neighbors(
    paths: Sequence[tuple[int, ...]],
) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    """Returns the numbers above and below each number."""
    above, below = defaultdict(list), defaultdict(list)
    for path in paths:
        for a, b in pairwise(path):
            above[b].append(a)
            below[a].append(b)
    return above, below


def positions(
    layers: Sequence[list[int]], paths: Sequence[tuple[int, ...]], widths: Sequence[float]
) -> dict[int, float]:
    """Returns the horizontal center of each box and point: near its neighbors, without overlap."""
    x: dict[int, float] = {}
    for layer in layers:
        edge = -sum(widths[k] + GAP for k in layer) / 2
        for k in layer:
            x[k] = edge + widths[k] / 2
            edge += widths[k] + GAP
    above, below = neighbors(paths)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for _, layer in _pairs(layers, down):
            near = above if down else below
            targets = [_mean([x[j] for j in near[k]], x[k]) for k in layer]
            placed: list[float] = []
            for k, best in zip(layer, targets, strict=True):
                least = best
                if placed:
                    left = layer[len(placed) - 1]
                    least = placed[-1] + (widths[left] + widths[k]) / 2 + GAP
                placed.append(max(best, least))
            shift = sum(w - p for w, p in zip(targets, placed, strict=True)) / max(len(layer), 1)
            x |= {k: p + shift for k, p in zip(layer, placed, strict=True)}
    start = min(x[k] - widths[k] / 2 for layer in layers for k in layer) - MARGIN
    return {k: center - start for k, center in x.items()}


def _pairs(layers: Sequence[list[int]], down: bool) -> list[tuple[list[int], list[int]]]:
    """Returns each layer after the one before it, downwards or upwards."""
    ordered = list(layers) if down else list(layers)[::-1]
    return list(pairwise(ordered))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _edge(path: Sequence[int], x: Mapping[int, float], y: Mapping[int, float], boxes: int) -> str:
    """Returns an edge as a curve through its points."""
    a = path[0]
    parts = [f"M{x[a]:.1f} {y[a] + HEIGHT}"]
    for before, k in pairwise(path):
        middle = (y[before] + HEIGHT + y[k]) / 2
        parts.append(f"C{x[before]:.1f} {middle:.1f} {x[k]:.1f} {middle:.1f} {x[k]:.1f} {y[k]}")
        if k >= boxes:  # a point: the edge passes the layer straight down
            parts.append(f"V{y[k] + HEIGHT}")
    return f'<path class="edge" d="{"".join(parts)}"/>'


def _stubs(
    edges: Sequence[tuple[int, int]],
    x: Mapping[int, float],
    y: Mapping[int, float],
    boxes: Sequence[Box],
) -> list[str]:
    """Returns the ends of edges that are too long to draw; titles name their other ends."""
    to: dict[int, list[int]] = defaultdict(list)
    parts = []
    for a, b in edges:
        to[a].append(b)
        parts.append(_stub(x[b], y[b] - STUB, f"from {boxes[a].lines[0]}"))
    for a, ends in to.items():
        names = ", ".join(boxes[b].lines[0] for b in ends[:MAX_SHAPES])
        ending = f" and {len(ends) - MAX_SHAPES} more" if len(ends) > MAX_SHAPES else ""
        parts.append(_stub(x[a], y[a] + HEIGHT, f"to {names}{ending}"))
    return parts


def _stub(x: float, y: float, title: str) -> str:
    path = f'<path class="edge" stroke-dasharray="3 2" d="M{x:.1f} {y}V{y + STUB}">'
    return f"{path}<title>{escape(title)}</title></path>"
