"""Training, evaluation and prediction over data, with metrics."""
