"""What did my network learn? From any function of bits to a formula.

`network` may be a PyTorch module, a scikit-learn estimator, a compiled or trained Capax model, or
any callable that takes bits [n, T] and gives n numbers, positive for "yes".
"""

import capax

T = 1000


def network(X):
    """A stand-in for your model: it looks at three of a thousand bits."""
    return (X[:, 5] & X[:, 17] & (1 - X[:, 800])) - 0.5


found = capax.decompile(network, T=T)
print(f"formula: {found.formula.text}")
print(f"agreement on random inputs: {found.agreement.value:.3f} after {found.queries} queries")
print(f"all 2^{T} inputs: {found.all_inputs.status} (weights can be proved, a function only asked)")
