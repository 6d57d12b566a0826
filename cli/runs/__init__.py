"""Runs: the folder that `odt train --run-dir` writes, and what shows it: charts, tables, a page."""
