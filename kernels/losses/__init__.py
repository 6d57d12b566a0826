"""One file for each loss; ends in `LOSS = LossDef(...)`."""
