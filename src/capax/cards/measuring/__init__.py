"""Trials of a card: which are asked for, who trains them, and what is remembered of each."""
