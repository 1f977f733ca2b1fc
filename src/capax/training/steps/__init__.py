"""The mathematics of a step: logits, loss, gradients in pieces, the optimiser's rule."""
