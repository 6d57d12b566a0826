"""What a training run is: losses, optimizer, what trains. Knows no runtime."""
