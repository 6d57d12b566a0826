"""Training runs: losses, optimizer and trainable weights, resolved. Knows no runtime."""
