"""Measurements on a text: attention is computed in strips, and only statistics are kept."""
