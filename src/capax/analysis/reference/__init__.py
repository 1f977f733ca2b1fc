"""Thresholds of other experiments: published points, reference stores, and their agreement."""
