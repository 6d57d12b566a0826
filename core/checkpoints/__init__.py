"""Checkpoint files in odt's and onert's format, and resume. Independent of model formats."""
