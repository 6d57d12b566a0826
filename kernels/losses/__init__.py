"""One loss a file; each ends in `LOSS = LossDef(...)`."""
