"""Trials of a card: their choice, their training and their storage."""
