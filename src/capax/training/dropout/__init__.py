"""Training with dropout: masks from counters, the network with masks, kernels for its tokens."""
