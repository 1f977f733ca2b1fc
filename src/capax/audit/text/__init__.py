"""Measurements on a text: attention is computed in strips of rows; only statistics are kept."""
