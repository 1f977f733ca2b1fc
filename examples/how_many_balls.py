"""How large is a set of functions? Its covering number: the fewest balls that cover it.

The points here are random; replace them by an array or the name of a .csv or .npy file.
"""

import numpy as np

import capax

points = np.random.default_rng(0).uniform(size=(40, 2))
for eps in (0.5, 0.25, 0.125):
    found = capax.cover(points, eps=eps)
    print(f"eps = {eps}: {found.exact} balls, centred at the points {found.centres}")
