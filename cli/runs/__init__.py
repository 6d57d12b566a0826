"""Writes the folders of runs, as `odt train --run-dir`."""
