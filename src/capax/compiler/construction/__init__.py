"""Section 5: which construction fits a function, its head, and its matrices."""
