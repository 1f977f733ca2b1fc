"""Numbers of each head from its weights alone: NumPy, float64, one layer at a time."""
