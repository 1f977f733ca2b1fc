"""A training step as one CUDA kernel, on GPUs that support it."""
