"""Computes all frames of a sequence at once, where a streaming model computes frame by frame.

A streaming convolution keeps the last frames of its input in a variable, and joins them with those
of the time step. Over a whole sequence that is a convolution of all frames, after the initial ones,
which takes one node instead of one for each time step. This module finds the tensors that are such
windows of a sequence, and adds the nodes that compute the whole sequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from odt.core.lowering.binding import bind_operands, bind_outputs
from odt.core.lowering.streaming.sequence_builder import TIME, SequenceBuilder
from odt.core.model.graph import ABSENT, Node
from odt.core.model.variables import ASSIGN, HANDLE, INITIALIZE, READ
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.registry import find_operator

RESHAPING = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
CONVOLUTIONS = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 1}  # operator → axis of the height in filters
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
POINTWISE = (
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "RELU_0_TO_1",
    "LEAKY_RELU",
    "ELU",
    "TANH",
    "LOGISTIC",
    "HARD_SWISH",
    "GELU",
    "ABS",
    "EXP",
    "SQRT",
    "RSQRT",
    "SQUARE",
    "NEG",
    "QUANTIZE",
    "DEQUANTIZE",
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MAXIMUM",
    "MINIMUM",
)
VALID = 1  # Padding of the schema


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a sequence that a tensor of a time step is.

    Attributes:
        tensor: the sequence of frames, along the axis of time.
        first: first frame of time step 0.
        hop: frames from a time step to the next.
        length: frames in a time step.
    """

    tensor: int
    first: int
    hop: int
    length: int


class Frames:
    """Adds the nodes that compute whole sequences.

    Attributes:
        windows: tensor of the file → its window.
        shared: tensors that depend only on constants.
        done: nodes of the file that need not be computed in each time step.
    """

    def __init__(self, builder: SequenceBuilder) -> None:
        self.builder, self.graph = builder, builder.graph
        self.windows: dict[int, Window] = {}
        self.shared: set[int] = set()
        self.done: set[int] = set()
        self._makers = {i: node for node in self.graph.nodes for i in node.outputs}

    def add_input(self, i: int, sequence: int, origin: int) -> None:
        """Adds the frames of an input (1, time steps, frames, …), if time steps have frames."""
        shape = self._shape(i)
        if len(shape) < 3 or shape[0] != 1:
            return
        total = self.builder.count * shape[TIME]
        self._reshape(sequence, self._new(i, total), origin)
        self.windows[i] = Window(len(self.builder.tensors) - 1, 0, shape[TIME], shape[TIME])

    def add(self, node: Node) -> None:
        """Adds a node for whole sequences if that is possible.

        A node that breaks a rule of its operator is left to the time steps, whose shapes are
        inferred.
        """
        form = self._form(node) if self._is_complete(node) else None
        if self._depends_on_constants(node):
            self.builder.nodes.append(node)
            self.shared.update(node.outputs)
            self.done.add(id(node))
        elif form is not None and form(node):
            self.done.add(id(node))

    def _is_complete(self, node: Node) -> bool:
        """Whether a node has the tensors that its operator takes, and results an axis of time."""
        row = find_operator(node.op)
        try:
            if row is not None:
                bind_operands(row, node)
                bind_outputs(row, node)
        except ShapeError:
            return False
        return all(len(self._shape(y)) > TIME for y in node.outputs)

    def _depends_on_constants(self, node: Node) -> bool:
        return node.op not in (HANDLE, READ, ASSIGN, INITIALIZE) and not self._active(node)

    def add_step(self, i: int, step: int, y: int, origin: int) -> None:
        """Adds the tensor y, which is tensor i of the file in a time step."""
        window = self.windows[i]
        begin = window.first + step * window.hop
        self.builder.add_slice(window.tensor, begin, begin + window.length, y, origin)

    def _form(self, node: Node) -> Callable[[Node], bool] | None:
        """Returns the method that tries to add a node for whole sequences; None without one."""
        if node.op in RESHAPING:
            return self._add_reshape
        if node.op == "CONCATENATION":
            return self._add_concatenation
        if node.op == "STRIDED_SLICE":
            return self._add_slice
        if node.op in ("SPLIT", "SPLIT_V"):
            return self._add_split
        if node.op in CONVOLUTIONS or node.op in POOLS:
            return self._add_convolution
        return self._add_pointwise if node.op in POINTWISE else None

    def _shape(self, i: int) -> tuple[int, ...]:
        return self.graph.tensors[i].spec.shape

    def _active(self, node: Node) -> list[int]:
        """Returns the inputs of a node that do not depend only on constants."""
        return [
            i
            for i in node.inputs
            if i not in (ABSENT, *self.shared) and self.graph.tensors[i].data is None
        ]

    def _new(self, i: int, frames: int) -> int:
        """Adds a sequence of frames of a tensor of the file."""
        shape = self._shape(i)
        return self.builder.activation_like((*shape[:TIME], frames, *shape[TIME + 1 :]), i)

    def _total(self, window: Window) -> int:
        """The number of frames in all time steps."""
        return (self.builder.count - 1) * window.hop + window.length

    def _all_frames(self, i: int, origin: int) -> int:
        """Returns the frames of all time steps of a tensor."""
        window = self.windows[i]
        total, first = self._total(window), window.first
        if not first and self.builder.tensors[window.tensor].spec.shape[TIME] == total:
            return window.tensor
        y = self._new(i, total)
        self.builder.add_slice(window.tensor, first, first + total, y, origin)
        self.windows[i] = replace(window, tensor=y, first=0)
        return y

    def _append(self, node: Node, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Adds a node of the file with other inputs and outputs."""
        self.builder.nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(outputs)))

    def _reshape(self, x: int, y: int, origin: int) -> None:
        """Adds a RESHAPE from x to y."""
        shape = self.builder.tensors[y].spec.shape
        self.builder.nodes.append(Node("RESHAPE", (x,), (y,), {"new_shape": shape}, origin))

    def _add_reshape(self, node: Node) -> bool:
        """Adds a RESHAPE that leaves the frames as they are."""
        x, (y,) = node.inputs[0], node.outputs
        if x not in self.windows or self._shape(x)[:2] != self._shape(y)[:2]:
            return False
        before = self._all_frames(x, node.origin)
        result = self._new(y, self._total(self.windows[x]))
        self._reshape(before, result, node.origin)
        self.windows[y] = replace(self.windows[x], tensor=result, first=0)
        return True

    def _add_concatenation(self, node: Node) -> bool:
        """Adds a CONCATENATION of channels, or of the frames that a variable keeps and new ones."""
        (y,) = node.outputs
        axis = node.options["axis"] % max(len(self._shape(y)), 1)
        if node.options.get("fused_activation_function", 0):
            return False
        if axis == TIME:
            return self._add_state_frames(node, y)
        return axis > TIME and self._add_pointwise(node)

    def _add_state_frames(self, node: Node, y: int) -> bool:
        """Adds the initial frames before all others, if a variable always keeps the last ones."""
        read = self._makers.get(node.inputs[0])
        if len(node.inputs) != 2 or read is None or read.op != READ:
            return False
        old, new = node.inputs
        window = self.windows.get(new)
        if window is None or window.hop != window.length:
            return False
        state_frames = sum(self._shape(old)[TIME : TIME + 1])
        assign = self._assignment_of_last(read, y, state_frames)
        if assign is None:
            return False
        first = self.builder.initial(read, self.builder.keys[read.inputs[0]])
        if self.builder.tensors[first].spec.shape != self._shape(old):
            return False
        frames = self._all_frames(new, node.origin)
        result = self._new(y, state_frames + self._total(window))
        self._append(node, (first, frames), (result,))
        self.windows[y] = Window(result, 0, window.hop, state_frames + window.length)
        self.done.update((id(read), id(assign)))
        return True

    def _assignment_of_last(self, read: Node, joined: int, state_frames: int) -> Node | None:
        """Returns the node that assigns the last frames of a tensor to a variable, if one does.

        Only one node may read the variable.
        """
        key = self.builder.keys.get(read.inputs[0])
        nodes = [
            node
            for node in self.graph.nodes
            if node.op in (READ, ASSIGN) and self.builder.keys.get(node.inputs[0]) == key
        ]
        if key is None or [node.op for node in nodes] != [READ, ASSIGN]:
            return None
        readers = [node for node in self.graph.nodes if read.outputs[0] in node.inputs]
        maker = self._makers.get(nodes[1].inputs[1])
        if maker is None or maker.inputs[:1] != (joined,) or len(readers) != 1:
            return None
        total = self._shape(joined)[TIME]
        if self._frames_of(maker) != (total - state_frames, total):
            return None
        return nodes[1] if self.builder.same_scale(maker.outputs[0], read.outputs[0]) else None

    def _frames_of(self, node: Node) -> tuple[int, int] | None:
        """Returns first and last frame of a STRIDED_SLICE that selects only frames; or None."""
        if node.op != "STRIDED_SLICE" or node.options.get("offset") or not self._is_complete(node):
            return None
        data = [self.graph.tensors[i].data for i in node.inputs[1:]]
        shape = self._shape(node.inputs[0])
        masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
        are_known = all(a is not None and a.dtype.kind in "iu" for a in data)
        if not are_known or any(node.options[m] for m in masks):
            return None
        begins, ends, strides = (a.reshape(-1).tolist() for a in data if a is not None)
        if 0 in strides:
            return None
        bounds = []  # the last axes may have none, and are selected as a whole
        for k, (size, b, e, stride) in enumerate(zip(shape, begins, ends, strides, strict=False)):
            begin = 0 if node.options["begin_mask"] >> k & 1 else b
            end = size if node.options["end_mask"] >> k & 1 else e
            bounds.append(slice(begin, end, stride).indices(size))
        whole = [(0, n, 1) for n in shape]
        selected = [*bounds, *whole[len(bounds) :]]
        begin, end, stride = selected[TIME]
        others = selected[:TIME] + selected[TIME + 1 :] == whole[:TIME] + whole[TIME + 1 :]
        return (begin, end) if others and stride == 1 and begin < end else None

    def _add_slice(self, node: Node) -> bool:
        """Finds the window of a STRIDED_SLICE of frames, which needs no node."""
        x, (y,) = node.inputs[0], node.outputs
        frames = self._frames_of(node) if x in self.windows and len(self._shape(x)) > 2 else None
        if frames is None:
            return False
        window, (begin, end) = self.windows[x], frames
        self.windows[y] = Window(window.tensor, window.first + begin, window.hop, end - begin)
        return True

    def _add_split(self, node: Node) -> bool:
        """Adds a SPLIT of channels."""
        x, axis = (node.inputs[1], 0) if node.op == "SPLIT" else (node.inputs[0], 2)
        along = self.graph.tensors[node.inputs[axis]].data
        if (
            x not in self.windows
            or along is None
            or along.size != 1
            or int(along.reshape(-1)[0]) % len(self._shape(x)) <= TIME
        ):
            return False
        self._add_same_frames(node, [x])
        return True

    def _add_pointwise(self, node: Node) -> bool:
        """Adds an operator that computes each frame from the same frame of its inputs."""
        active = self._active(node)
        if not active or any(i not in self.windows for i in active):
            return False
        kinds = {(self.windows[i].hop, self.windows[i].length) for i in active}
        ranks = {len(self._shape(i)) for i in active}
        if (
            len(kinds) > 1
            or len(ranks) > 1
            or not all(self._is_pointwise(i, ranks) for i in node.inputs)
        ):
            return False
        self._add_same_frames(node, active)
        return True

    def _is_pointwise(self, i: int, ranks: set[int]) -> bool:
        """Whether a constant is the same for all frames."""
        tensor = self.graph.tensors[i]
        shape = tensor.spec.shape
        axis = len(shape) - max(ranks) + TIME  # of time, where the shape is broadcast
        return tensor.data is None or axis < 0 or shape[axis : axis + 1] in ((), (1,))

    def _add_same_frames(self, node: Node, active: Sequence[int]) -> None:
        """Adds a node whose outputs have the frames of its inputs."""
        whole = {i: self._all_frames(i, node.origin) for i in active}
        window = self.windows[active[0]]
        results = [self._new(y, self._total(window)) for y in node.outputs]
        self._append(node, [whole.get(i, i) for i in node.inputs], results)
        for y, tensor in zip(node.outputs, results, strict=True):
            self.windows[y] = replace(window, tensor=tensor, first=0)

    def _add_convolution(self, node: Node) -> bool:
        """Adds a convolution or pooling along the frames, without padding of frames."""
        x, (y,) = node.inputs[0], node.outputs
        window, options = self.windows.get(x), node.options
        if window is None or self._active(node) != [x]:
            return False
        if node.op in POOLS:
            size = options["filter_height"]
        else:
            filters = self._shape(node.inputs[1])
            if len(filters) <= CONVOLUTIONS[node.op]:
                return False
            taps = filters[CONVOLUTIONS[node.op]]
            size = (taps - 1) * options.get("dilation_h_factor", 1) + 1
        stride, length = options["stride_h"], self._shape(y)[TIME]
        padded = options["padding"] != VALID and (size > 1 or stride > 1)
        if stride < 1 or padded or window.hop % stride:
            return False
        if length != (window.length - size) // stride + 1:
            return False
        result = self._new(y, (self._total(window) - size) // stride + 1)
        self._append(node, (self._all_frames(x, node.origin), *node.inputs[1:]), (result,))
        self.windows[y] = Window(result, 0, window.hop // stride, length)
        return True
