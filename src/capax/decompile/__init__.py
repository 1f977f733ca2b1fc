"""Decompile: from trained weights back to a formula, with a proof or a counterexample."""
