"""One file for each optimizer; ends in `RULE = UpdateRule(...)`."""
