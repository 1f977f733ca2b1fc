"""Tables of a store: runs, trials, curves, thresholds, formulas; what is left of a damaged store."""
