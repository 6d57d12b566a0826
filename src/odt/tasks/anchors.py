"""Detectors with anchors and the operator TFLite_Detection_PostProcess: SSD, EfficientDet-Lite.

Two outputs of training, those that the operator reads: codes of a box for each anchor, and scores
of each class. Anchors, scales and class slots are the operator's.

SSD (TensorFlow Object Detection API, ssd_mobilenet_v1_quantized_300x300_coco14_sync.config and
core/losses.py): huber loss with δ = 1, mean over the four codes, on anchors with a box; sigmoid
focal loss with α = 0.75 and γ = 2 on all columns, of which that of the background is 0; both
divided by the number of anchors with a box. EfficientDet (google/automl, hparams_config.py and
train_lib.py), of files without a column for the background: δ = 0.1, times 50; α = 0.25, γ = 1.5.
Both count the anchors with a box in each batch; here it is their mean over the photos, so that the
loss of a photo does not depend on its batch.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.core.data.protocol import Scales
from odt.core.formats.flatbuffer.detection_postprocess import PostProcess, read_post_process
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array
from odt.tasks.anchor_targets import BOX, AnchorTargets
from odt.tasks.detector import slots_text
from odt.tasks.geometry import best_detections
from odt.tasks.matching import decode, encode

FOCAL = "binary_focal_crossentropy:apply_class_balancing=True"


@dataclass(frozen=True, slots=True)
class Family:
    """The losses of a family of detectors.

    Attributes:
        box_loss, class_loss: losses with their hyper-parameters.
        box_weight: factor of the loss of boxes.
    """

    box_loss: str
    class_loss: str
    box_weight: float = 1.0


SSD = Family("huber", f"{FOCAL},alpha=0.75")
EFFICIENTDET = Family("huber:delta=0.1", f"{FOCAL},gamma=1.5", 50.0)


class AnchorDetector:
    """A detector with anchors.

    Args:
        post: its post-processing.
        columns: columns of the scores.
        class_slots: class of the data → slot; empty for one class for each slot.
        positives: mean number of anchors with a box in a photo.
    """

    metric = "map"
    scales = Scales.POSITIONS
    trains_heads = True

    def __init__(
        self,
        post: PostProcess,
        columns: int,
        class_slots: Sequence[int] = (),
        positives: float = 1.0,
    ) -> None:
        self.post = post
        self.slots = post.classes
        self.tensors = (post.boxes, post.scores)
        self.family = SSD if columns > post.classes else EFFICIENTDET
        self._columns = columns
        first = columns - post.classes  # after that of the background
        numbers = class_slots or range(post.classes)
        self._targets = AnchorTargets(post.anchors, [first + s for s in numbers], positives)
        self._scales = np.array(post.scales, np.float32)

    @property
    def losses(self) -> Mapping[int, str]:
        family = self.family
        return dict(zip(self.tensors, (family.box_loss, family.class_loss), strict=True))

    def prepared(self, class_slots: Sequence[int], positives: float) -> "AnchorDetector":
        return AnchorDetector(self.post, self._columns, class_slots, positives)

    def positives(self, boxes: Array) -> int:
        return self._targets.positives(boxes)

    def encode(self, boxes: Array, targets: Sequence[Array]) -> None:
        def codes_of(matched: Array, at: Array) -> Array:
            return encode(matched, self.post.anchors[at], self._scales)

        self._targets.write(boxes, targets, codes_of, self.family.box_weight)

    def decode(self, outputs: Sequence[Array]) -> list[Array]:
        count = len(self.post.anchors)
        codes, scores = (a.reshape(len(a), count, -1, copy=False) for a in outputs)
        with np.errstate(over="ignore", invalid="ignore"):  # codes that are far too large
            return [self._detections(*photo) for photo in zip(codes, scores, strict=True)]

    def _detections(self, codes: Array, scores: Array) -> Array:
        boxes = decode(codes[:, :BOX], self.post.anchors, self._scales)
        by_class, post = scores[:, self._targets.columns], self.post
        return best_detections(boxes, by_class, post.score_threshold, post.iou_threshold)

    def __str__(self) -> str:
        return (
            f"{len(self.post.anchors):,} anchors, {slots_text(self.slots)}, "
            f"{self.post.max_detections:,} detections"
        )


def recognize(model: Model) -> AnchorDetector | None:
    """Returns the detector of a model; None for a model without the operator.

    Raises:
        ModelError: if the operator is damaged.
    """
    post = read_post_process(model)
    if post is None:
        return None
    return AnchorDetector(post, model.graph.tensors[post.scores].spec.shape[-1])
