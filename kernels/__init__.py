"""Operators, losses and optimizers on given memory. Knows no file and no graph."""
