"""Writes a training step as a C program."""
