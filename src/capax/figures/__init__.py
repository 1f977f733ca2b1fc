"""Figures: every picture of the library, drawn from plain data in one style, light and dark.

`style` sets the look. The paper's figures are `attention_diagram` (1), `threshold_scaling` (2),
`learning_curves` and `attention_weights` (3), `parity_transition` (4): functions of small frozen
records, without results of their own. The `stored_*` files make these records from a sweep's store
and `paper_figures` does both steps. Nothing is imported here: Matplotlib loads when a figure is
wanted.
"""
