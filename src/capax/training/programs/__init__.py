"""Compiled programs: which trials share one, its memory, its data, its kernels."""
