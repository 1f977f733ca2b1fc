"""Families of learners: architectures in the engine, learners with `fit`, simulated learners."""
