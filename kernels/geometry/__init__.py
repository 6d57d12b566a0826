"""Attributes of operators and the index arithmetic that follows from them. Knows no kernel."""
