"""How much data does a learner need, and how does that grow with the context length T?

The learner here is simulated: its threshold is 40 + 10 ln T, so the answer can be checked. Replace
the [model] by `family = "transformer"` to train real ones (`capax new experiment.toml`).
"""

from pathlib import Path

import capax

Path("experiment.toml").write_text("""
T = [10, 100, 1000, 10000]
[model]
family = "simulated"
threshold = 40.0
growth = 10.0
""")
store = capax.sweep("experiment.toml", "experiment.sqlite")
answer = capax.thresholds(store)
for found in answer.thresholds:
    print(f"T = {found.T:6}: m* = {found.m_star} in [{found.low}, {found.high}]")
print(answer.verdict)
