"""Memory forecasts, and the fastest plan within a budget. Knows no runtime."""
