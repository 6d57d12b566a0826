#!/bin/sh
# pycocotools never counts a detection of the annotation with the id 0 as right.
#
# Ids of COCO files are integers that are unique. One would expect a file whose ids count from 0, as a
# program that numbers its annotations writes them, to be evaluated like one whose ids count from 1.
# COCOeval writes the id of the matched annotation into an array, and takes 0 for "no match": the
# detection of annotation 0 counts as false, and the annotation as missed, which together lower the
# precision of the class. No message says so. Images and categories may have the id 0.
#
# pycocotools 2.0.11, numpy 2.4.6, Python 3.11; output, for detections that are exactly the annotations:
#   2 annotations from 1:  AP 1.000, recall 1.000
#   2 annotations from 0:  AP 0.252, recall 0.500
#   20 annotations from 0: AP 0.894, recall 0.950
# Exit status 1 if the ids make no difference.
# For odt: its map does not depend on ids (docs/boxes.md, "Train a detector").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pycocotools==2.0.11 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import contextlib
import io
import sys
from importlib.metadata import version

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print(f"pycocotools {version('pycocotools')}")


def evaluated(count, first):
    """AP and recall of perfect detections in `count` images, whose annotation ids begin at `first`."""
    box = {"category_id": 1, "bbox": [10, 10, 50, 50]}
    images = [{"id": k, "width": 100, "height": 100} for k in range(1, count + 1)]
    more = {"area": 2500, "iscrowd": 0}
    truth = COCO()
    truth.dataset = {"info": {}, "images": images, "categories": [{"id": 1, "name": "thing"}]}
    truth.dataset["annotations"] = [
        {"id": first + k, "image_id": image["id"], **box, **more} for k, image in enumerate(images)
    ]
    found = [{"image_id": image["id"], **box, "score": 0.9} for image in images]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[0], evaluation.stats[8]


precisions = []
for count, first in ((2, 1), (2, 0), (20, 0)):
    precision, recall = evaluated(count, first)
    name = f"{count} annotations from {first}:"
    print(f"{name:22} AP {precision:.3f}, recall {recall:.3f}")
    precisions.append(precision)
if precisions[1] > 0.99 or precisions[0] < 0.99:
    sys.exit("changed: the id of an annotation makes no difference")
PYTHON
