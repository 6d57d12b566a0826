"""One operator a file, named as in the schema, lower case; each ends in `OP = OpDef(...)`."""
