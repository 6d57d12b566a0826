"""The engine: files, graphs, plans, training. Independent of Click and the command line."""
