"""Trials of a card: which are requested, how they are trained, and what is stored of each."""
