"""What is computed, in which order, and where its values lie."""
