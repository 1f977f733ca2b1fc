"""Which bits, which function, and how it is written."""
