"""Operators, losses and optimizers in given memory; independent of files and graphs."""
