"""Plans: what a micro-batch computes, in which order, at which offsets. Knows no runtime."""
