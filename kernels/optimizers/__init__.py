"""One file for each optimizer; each ends in `RULE = UpdateRule(...)`."""
