"""How much can an attention head hold? A bound on its error from the norms of its weights.

The paper's point: the context length T enters through a logarithm only. Change the norms, m and T.
"""

import capax

NORMS = "W_QK=2,v=1"

for T in (100, 10_000, 1_000_000):
    bound = capax.bound(NORMS, T=T, m=100_000, margin=0.5).best
    print(f"T = {T:9,}: error <= {bound.value:.4f} ({bound.status}; {bound.statement})")
print(bound.explain())
