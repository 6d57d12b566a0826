"""Makes the graph of a file plain: no subgraphs, lists of tensors, foreign operators or dropout."""
