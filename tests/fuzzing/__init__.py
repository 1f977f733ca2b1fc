"""Hostile input by the thousand: generators of cases, one judge (`benchmarks/fuzz.py`)."""
