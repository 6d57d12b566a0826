"""Runs: the folder that `odt train --run-dir` writes, and its charts, tables and page."""
