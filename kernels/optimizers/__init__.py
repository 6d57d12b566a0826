"""One update rule a file; each ends in `RULE = UpdateRule(...)`."""
