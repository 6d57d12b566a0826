"""One file for each metric; ends in `METRIC = MetricDef(...)`."""
