"""Weights of others on disk: four formats, one shape of answer, and no code is ever run."""
