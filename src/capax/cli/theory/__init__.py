"""Commands about formulas, covers, bounds and their statements."""
