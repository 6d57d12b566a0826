"""Rewrites of plans that save memory: reorder, compress, recompute. Independent of the budget."""
