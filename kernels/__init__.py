"""Operators, losses and optimizers in given memory. Independent of files and graphs."""
