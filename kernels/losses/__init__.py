"""One loss a file; each ends in `LOSS = OpDef(...)` with inputs x, t and scale."""
