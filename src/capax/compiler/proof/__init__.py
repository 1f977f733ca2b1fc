"""Proofs about a network on all 2^T inputs: tables, ranges, a search for bad inputs."""
