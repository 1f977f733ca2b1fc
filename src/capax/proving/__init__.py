"""Proof files: statements about networks on all inputs that a stranger can check.

`compiled_proof` writes the proof of a compiled network, `checking` runs the checker on it in a
process of its own, and `capax_check` is the checker: one file that needs Python alone.
"""
