"""Model files: bytes ⇄ `Model`, one folder for each format. Independent of training."""
