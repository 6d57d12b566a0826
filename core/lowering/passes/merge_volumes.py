"""Merges the convolutions of images that spell out a convolution of volumes into one CONV_3D.

tico, which converts models from PyTorch, computes each image of a Conv3d's result as the sum of a
CONV_2D for each tap along the depth, and the bias,

    y[t] = Σ w[k] ∗ x[t · stride + k · dilation] + b

with zeros joined to both ends of x. A network of four such layers has 658 operators, most of which
slice and move the same images again and again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.lowering.graph_builder import GraphBuilder, node_of, permuted
from odt.core.lowering.sources import moved_axes, part_of
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.conv_geometry import ConvAttrs, VolumeAttrs
from odt.kernels.geometry.window import VALID
from odt.kernels.rows.opdef import TensorSpec

DEPTH = 2  # axis of (N, C, D, H, W)
LAST, FIRST = (0, 2, 3, 4, 1), (0, 4, 1, 2, 3)  # volumes to channels last, and back
Zeros = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """A convolution of one image of a volume.

    Attributes:
        node: the CONV_2D.
        x, at: the volume, (N, C, D, H, W), and the place of the image along its depth.
        zeros: zeros before and after the height and the width of the image.
    """

    node: Node
    x: int
    at: int
    zeros: tuple[Zeros, Zeros]

    @property
    def filters(self) -> int:
        """The filters, (O, KH, KW, C)."""
        return self.node.inputs[1]

    @property
    def common(self) -> tuple[Any, ...]:
        """What the images of a convolution of volumes have in common."""
        attrs: ConvAttrs = self.node.attrs
        return self.x, self.zeros, attrs.stride, attrs.dilation


@dataclass(frozen=True, slots=True)
class Sum:
    """An image of the result: the sum of convolutions of images and a bias.

    Attributes:
        images: in their order along the depth.
        bias: the constant that is added, or ABSENT.
        origin: of the operator that computes the sum.
    """

    images: tuple[Image, ...]
    bias: int
    origin: int

    @property
    def filters(self) -> tuple[int, ...]:
        return tuple(image.filters for image in self.images)


def merge_volumes(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with one CONV_3D for each convolution of volumes that is spelled out."""
    if not any(_joins_volumes(graph, node) for node in graph.nodes):
        return graph
    merger = _VolumeMerger(graph)
    return merger.with_replaced(merger.add_merged)


def _joins_volumes(graph: LoweredGraph, node: Node) -> bool:
    """Whether a node joins volumes (N, C, D, H, W) along their depth."""
    y = graph.tensors[node.outputs[0]].spec.shape
    return node.op == "CONCATENATION" and len(y) == 5 and node.attrs.axis in (DEPTH, DEPTH - 5)


class _VolumeMerger(GraphBuilder):
    """Searches a graph for sums of convolved images, and builds the new graph."""

    def __init__(self, graph: LoweredGraph) -> None:
        super().__init__(graph)
        self._makers = {i: node for node in graph.nodes for i in node.outputs}

    def add_merged(self, node: Node) -> bool:
        """Adds a convolution of volumes, if a node joins the sums of its images."""
        sums = self._sums(node) if _joins_volumes(self._graph, node) else []
        return bool(sums) and self._add(sums, node)

    def _sums(self, node: Node) -> list[Sum]:
        """Returns the images that a node joins as sums; none unless all of them are."""
        sums: list[Sum] = []
        for i in node.inputs:
            image_sum = self._sum(i)
            if image_sum is None:
                return []
            sums.append(image_sum)
        return sums

    def _sum(self, i: int) -> Sum | None:
        """Returns an image of the result, (N, O, 1, H, W), as a sum."""
        batch, units, depth, *size = self.tensors[i].spec.shape
        if depth != 1:
            return None
        images, biases = [], list[int]()
        for term in self._terms(i, (batch, units, *size)):
            image = self._image(term, (batch, *size, units))
            if image is not None:
                images.append(image)
            elif self._is_bias(term, units):
                biases.append(term)
            else:
                return None
        if not images or len(biases) > 1:
            return None
        ordered = tuple(sorted(images, key=lambda image: image.at))
        start, _ = moved_axes(self.tensors, self._makers, i)
        return Sum(ordered, biases[0] if biases else ABSENT, self._makers[start].origin)

    def _terms(self, i: int, shape: tuple[int, ...]) -> Iterator[int]:
        """Yields the terms of a sum with this shape, (N, O, H, W), of which tensor i is a view."""
        start, axes = moved_axes(self.tensors, self._makers, i)
        node = self._makers.get(start)
        if node is None or node.op != "ADD" or axes != tuple(sorted(axes)):
            yield i
            return
        rest = [start]
        while rest:
            k = rest.pop()
            node = self._makers.get(k)
            if node is not None and node.op == "ADD" and self.tensors[k].spec.shape == shape:
                rest += node.inputs
            else:
                yield k

    def _is_bias(self, i: int, units: int) -> bool:
        tensor = self.tensors[i]
        shape = (1,) * (4 - len(tensor.spec.shape)) + tensor.spec.shape
        return tensor.data is not None and shape == (1, units, 1, 1)

    def _image(self, term: int, shape: tuple[int, ...]) -> Image | None:
        """Returns a term as a convolution of an image, with a result of this shape."""
        tensors, makers = self.tensors, self._makers
        y, order = moved_axes(tensors, makers, term)
        node = makers.get(y)
        if node is None or node.op != "CONV_2D" or tensors[y].spec.shape != shape:
            return None
        if order != _long((0, 3, 1, 2), shape) or not self._are_zeros(node.inputs[2:]):
            return None
        x, zeros = self._zeros(node)
        i, order = moved_axes(tensors, makers, x)
        maker = makers.get(i)
        part = part_of(tensors, maker, i) if maker is not None else None
        if part is None or part.axis != DEPTH or part.end != part.begin + 1:
            return None
        image, volume = tensors[i].spec.shape, tensors[part.x].spec.shape
        fits = len(image) == len(volume) == 5 and order == _long(LAST, image)
        if not fits or tensors[x].spec.shape != permuted(image, (0, 3, 4, 1)):
            return None
        return Image(node, part.x, part.begin, zeros)

    def _zeros(self, node: Node) -> tuple[int, tuple[Zeros, Zeros]]:
        """Returns the images that a CONV_2D reads, and the zeros before and after their axes."""
        x, w = node.inputs[:2]
        pad = self._makers.get(x)
        if pad is not None and pad.op == "PAD" and node.attrs.padding == VALID:
            samples, height, width, channels = pad.attrs.pads
            if not any((*samples, *channels)):
                return pad.inputs[0], (height, width)
        h, v = node.attrs.axes(self.tensors[x].spec, self.tensors[w].spec)
        return x, ((h.lo, h.hi), (v.lo, v.hi))

    def _are_zeros(self, numbers: Sequence[int]) -> bool:
        """Whether tensors, of which some may be ABSENT, are zeros that do not train."""
        tensors = [self.tensors[i] for i in numbers if i != ABSENT]
        return all(
            t.data is not None and (t.formula or t.constant_reason) and not t.data.any()
            for t in tensors
        )

    def _add(self, sums: Sequence[Sum], node: Node) -> bool:
        """Adds the CONV_3D that computes the sums; returns whether there is one."""
        first, bias, (y,) = sums[0].images[0], sums[0].bias, node.outputs
        x, ends = self._padded(first.x)
        attrs = _attrs(sums, self.tensors[first.x].spec.shape[DEPTH], ends)
        if attrs is None:
            return False
        spec, parts = self.tensors[y].spec, [self.tensors[w].spec for w in sums[0].filters]
        if any(part != parts[0] for part in parts):
            return False
        units, height, width, channels = parts[0].shape
        volume, w, result = (
            TensorSpec(shape, spec.dtype)
            for shape in (
                permuted(self.tensors[x].spec.shape, LAST),
                (len(parts), height, width, channels, units),
                permuted(spec.shape, LAST),
            )
        )
        try:
            if row_of("CONV_3D").infer(attrs, {"x": volume, "w": w}) != {"y": result}:
                return False
        except ShapeError:
            return False
        origin = sums[-1].images[-1].node.origin  # of the last convolution along the depth
        taps = [self.transpose(w, (1, 2, 3, 0), origin) for w in sums[0].filters]
        inputs = [self.transpose(x, LAST, origin), self.tensor("", w.shape, spec)]
        self.nodes.append(node_of("PACK", taps, inputs[1:], origin, axis=0))
        if bias != ABSENT:
            inputs.append(self.tensor("", (units,), spec))
            self.view(bias, inputs[-1], sums[-1].origin)
        moved = self.tensor(f"{self.tensors[y].name}/channels last", result.shape, spec)
        self.nodes.append(Node("CONV_3D", tuple(inputs), (moved,), {}, origin, attrs))
        self.transpose(moved, FIRST, node.origin, y)
        return True

    def _padded(self, x: int) -> tuple[int, Zeros]:
        """Returns the tensor to whose depth a volume joins zeros, and how many at each end."""
        node, tensors = self._makers.get(x), self.tensors
        if node is None or not _joins_volumes(self._graph, node):
            return x, (0, 0)
        inner = [k for k, i in enumerate(node.inputs) if not self._are_zeros((i,))]
        if len(inner) != 1:
            return x, (0, 0)
        depths = [tensors[i].spec.shape[DEPTH] for i in node.inputs]
        (k,) = inner
        return node.inputs[k], (sum(depths[:k]), sum(depths[k + 1 :]))


def _attrs(sums: Sequence[Sum], depth: int, ends: Zeros) -> VolumeAttrs | None:
    """Returns the attributes of the CONV_3D that computes some sums; None if there is none.

    Args:
        sums: the images of the result.
        depth: the number of images that are convolved, with zeros.
        ends: zeros before and after the depth.
    """
    first = sums[0].images[0]
    for each in sums:
        if (each.filters, each.bias) != (sums[0].filters, sums[0].bias):
            return None
        if any(image.common != first.common for image in each.images):
            return None
    places = np.array([[image.at for image in each.images] for each in sums])
    stride = int(places[1, 0] - places[0, 0]) if len(sums) > 1 else depth
    dilation = int(places[0, 1] - places[0, 0]) if places.shape[1] > 1 else 1
    outputs, taps = np.indices(places.shape)
    if stride < 1 or dilation < 1 or (places != outputs * stride + taps * dilation).any():
        return None
    attrs: ConvAttrs = first.node.attrs
    return VolumeAttrs(
        VALID, attrs.stride, attrs.dilation, stride, dilation, zeros=first.zeros, depth_zeros=ends
    )


def _long(axes: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the axes that are longer than 1, in the same order."""
    return tuple(k for k in axes if shape[k] != 1)
