"""Charts as SVG and, with matplotlib, as PNG."""
