"""Writes trained weights into model files, and new last layers. Knows no plan."""
