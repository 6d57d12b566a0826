"""The engine: files, graphs, plans, training. Knows no Click."""
