"""The classes of rows, of operators, losses, metrics, optimizers and schedules, and their index.

Independent of kernels and of the engine.
"""
