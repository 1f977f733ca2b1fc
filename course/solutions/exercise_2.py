"""Softmax attention of one head, written out."""

import math

RELEVANT = (1, 3, 5)


def answer(x):
    tokens = [(8.0 * bit, float(bit)) if t in RELEVANT else (0.0, 0.0) for t, bit in enumerate(x)]
    tokens.append((8.0, -1.5))  # [CLS]
    masses = [math.exp(score) for score, _ in tokens]
    output = sum(mass * value for mass, (_, value) in zip(masses, tokens, strict=True))
    return output / sum(masses) > 0
