"""Heads beyond sparse functions of bits: averages of tokens, and functions of numbers."""
