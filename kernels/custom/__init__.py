"""Custom operators: one file each, named as the operator's custom code, in lower case."""
