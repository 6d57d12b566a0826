"""Checkpoint files of odt, onert and ONNX Runtime, and resume. Independent of model formats."""
