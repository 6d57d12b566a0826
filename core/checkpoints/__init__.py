"""Checkpoint files, odt's format and onert's, and resuming from them. Knows no model format."""
