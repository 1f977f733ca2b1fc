"""Learners: a zoo of architectures, and adapters for anything with `fit` and `predict`."""
