"""Lemma 4.6: norms of matrices, linear classes, pieces of a network, how the error is split."""
