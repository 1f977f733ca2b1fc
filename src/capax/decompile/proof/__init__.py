"""Does the formula hold on all inputs? Enclosures, cells, counterexamples."""
