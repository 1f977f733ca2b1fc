"""The figures of the paper, by number."""
