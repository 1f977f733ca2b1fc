"""PyTorch modules in the form that is proved: calls recorded, matched by values, checked."""
