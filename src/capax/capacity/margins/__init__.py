"""Margins of a model on its examples, and the bounds on its error that follow from a cover."""
