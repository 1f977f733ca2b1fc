"""PyTorch modules in the form that is proved: calls are recorded, matched by values, checked."""
