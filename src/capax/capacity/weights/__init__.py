"""Norms measured on modules, tables and files, rounded up to a grid fixed in advance."""
