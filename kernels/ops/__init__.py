"""One file for each operator, with its schema name in lower case; ends in `OP = OpDef(...)`."""
