"""Audit: what the attention heads of a real checkpoint can hold, and what they do."""
