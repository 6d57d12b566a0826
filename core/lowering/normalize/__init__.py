"""Makes a graph plain: no subgraphs, foreign operators or dropout. Independent of gradients."""
