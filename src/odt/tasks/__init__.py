"""Tasks whose targets are not arrays like the outputs: detectors, which learn boxes.

A task recognizes its models. It encodes boxes as targets and position weights for each output,
names the losses, decodes outputs as detections, and measures them. Each kind of detector is one
module: `anchors`, `stated_anchors` and `cells`. Importing this package imports none of them.
"""
