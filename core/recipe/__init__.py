"""What a training run is: losses, optimizer, what trains, resolved from files and options."""
