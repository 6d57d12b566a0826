"""Trained weights back into model files; models with other heads or weights."""
