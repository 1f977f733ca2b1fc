"""The exact collapse: quantities of (symbol, position) pairs are computed once, not m times.

A one-layer Transformer is one product of a 0/1 design matrix (`design`) with a table (`one_layer`,
`one_layer_table`, `row_norm`). With more layers the same holds for the first attention, with a
table of pairs of pairs (`pairwise_table`); the rest is computed for all examples at once
(`pairwise`; on a CPU with a column for every token, `pairwise_columns`).
"""
