"""Figures: every picture of the library, drawn from plain data in one style, light and dark.

`style` has fonts and colours, `labels` writes names at the ends of lines. Covers and bounds are
drawn in `theory`, attention in `heads` (Figure 1 of the paper is its `attention_diagram`, Figure 3,
right, its `attention_weights`), learning in `experiments` (Figure 2 is `threshold_scaling`, Figure
3, left, `learning_curves`, Figure 4 `parity_transition`). These are functions of small frozen
records and compute no results. `stored` makes the records from a sweep's store, and `paper` does
both steps. This file imports nothing, so that Matplotlib is loaded only when a figure is drawn.
"""
