"""The parts of a head (Definition 3.1): tokens, scores, masks, normalizers, activations."""
