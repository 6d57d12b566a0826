"""One file for each loss; each ends in `LOSS = LossDef(...)`."""
