"""Memory forecasts, and the fastest plan within a budget. Independent of the runtime."""
