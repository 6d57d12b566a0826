"""Formats of sources, found by file; each module ends in `FORMATS`. Knows no preprocessing."""
