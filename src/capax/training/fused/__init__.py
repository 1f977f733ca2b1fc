"""A training step as one CUDA kernel, where there is a GPU it is written for."""
