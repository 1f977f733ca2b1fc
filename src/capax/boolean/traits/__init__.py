"""Properties of a function: balance, spectrum, symmetries, neighbours."""
