"""Verification: every claim of a file recomputed from its weights alone."""
