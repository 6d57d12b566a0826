"""The classes of rows (operators, losses, metrics, optimizers, schedules), and their index."""
