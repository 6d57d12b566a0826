"""Rewrites of a plan that save memory: reordered, recomputed, compressed. Knows no budget."""
