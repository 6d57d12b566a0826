"""What several operators' samples share, a module for each family."""
