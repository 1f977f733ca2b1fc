"""What a function is like: balance, spectrum, symmetries, neighbours."""
