"""Tasks whose targets are not arrays like the outputs: detectors, which learn boxes.

A task recognizes its models. It encodes boxes as targets and position weights for each output,
names the losses, decodes outputs as detections, and measures them. One module a row: `anchors` and
`cells`. Importing this package imports none of them.
"""
