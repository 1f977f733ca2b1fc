"""What a machine computes instead of real numbers: bounds of the rounding, and all inputs run."""
