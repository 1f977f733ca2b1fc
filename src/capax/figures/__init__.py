"""Figures: every picture of the library, drawn from plain data in one style, light and dark.

`style` sets the look, `labels` name lines where they end. Covers and bounds are drawn in `theory`,
attention in `heads` (Figure 1 of the paper is its `attention_diagram`, Figure 3, right, its
`attention_weights`), learning in `experiments` (Figure 2 is `threshold_scaling`, Figure 3, left,
`learning_curves`, Figure 4 `parity_transition`): functions of small frozen records, without results
of their own. `stored` makes these records from a sweep's store and `paper` does both steps. Nothing
is imported here: Matplotlib loads when a figure is wanted.
"""
