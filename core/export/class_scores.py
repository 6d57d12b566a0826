"""Finds the class scores of a detector: a column for each class at each anchor or cell."""

from odt.core.formats.flatbuffer.detection_postprocess import OPERATOR, read_post_process
from odt.core.lowering.final_activation import probability_operator
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.errors import ModelError

CLASSES = 1  # output of the post-processing operator
CODES = 4  # numbers of a box


@dataclass(frozen=True, slots=True)
class ClassScores:
    """The class scores of a detector.

    Attributes:
        tensor: the scores, whose last axis has the columns.
        columns: number of columns.
        background: number of columns before those of the classes: 1 or 0.
        labeled: position of the output that class names belong to.
        place: what has the columns: an anchor or a cell.
    """

    tensor: int
    columns: int
    background: int
    labeled: int
    place: str

    @property
    def classes(self) -> int:
        """Number of classes without background."""
        return self.columns - self.background


def class_scores(model: Model) -> ClassScores | None:
    """Returns the class scores of a detector; None for other models.

    Raises:
        ModelError: if the model's post-processing operator is damaged, or does not return classes.
    """
    post = read_post_process(model)
    if post is None:
        return _cells(model.graph) or _faces(model.graph)
    columns = model.graph.tensors[post.scores].spec.shape[-1]
    outputs, classes = model.graph.outputs, post.node.outputs[CLASSES]
    if classes not in outputs:
        raise ModelError(
            f"{model.path}: operator {post.node.origin} ({OPERATOR}): its classes must be an "
            f"output of the model, but got {', '.join(map(model.graph.label, outputs))}"
        )
    labeled = outputs.index(classes)
    return ClassScores(post.scores, columns, columns - post.classes, labeled, "anchor")


def _cells(graph: Graph) -> ClassScores | None:
    """Returns the probabilities (1, H, W, C) of a grid of cells, as in FOMO."""
    if len(graph.outputs) != 1:
        return None
    (y,) = graph.outputs
    shape = graph.tensors[y].spec.shape
    is_grid = len(shape) == 4 and shape[1] * shape[2] > 1 and shape[3] > 1
    if not is_grid or not probability_operator(graph, y):
        return None
    return ClassScores(y, shape[3], 1, 0, "cell")


def _faces(graph: Graph) -> ClassScores | None:
    """Returns the scores (1, A, 1) of one class beside codes (1, A, 4 or more), as in BlazeFace."""
    shapes = [graph.tensors[i].spec.shape for i in graph.outputs]
    if [len(shape) for shape in shapes] != [3, 3]:
        return None
    for k, (scores, codes) in enumerate((shapes, shapes[::-1])):
        if scores[2] == 1 and scores[:2] == codes[:2] and codes[2] >= CODES:
            return ClassScores(graph.outputs[k], 1, 0, k, "anchor")
    return None
