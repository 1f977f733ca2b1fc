"""Which functions are consistent with a sample."""
