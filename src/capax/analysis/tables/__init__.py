"""Tables of a store: runs, trials, curves, thresholds, formulas; the remains of a damaged store."""
