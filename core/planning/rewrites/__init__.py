"""Rewrites of a plan that save memory: reordered, recomputed and compressed activations."""
