"""What a row is: of operators, losses, metrics and schedules, and the index of their names."""
