"""Plans: the calls of a micro-batch, and the offsets of values. Independent of the runtime."""
