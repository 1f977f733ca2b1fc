"""Limits for every learner: how many examples are needed at least."""
