"""Writes trained weights, training info and new layers to model files. Independent of plans."""
