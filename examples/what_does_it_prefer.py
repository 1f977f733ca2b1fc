"""What does a learner prefer to learn? Examples needed for a sparse rule, beside other learners.

Change `build` to your own estimator, PyTorch module or fit function, and T to longer inputs.
"""

from sklearn.tree import DecisionTreeClassifier

import capax


def build():
    return DecisionTreeClassifier()


card = capax.card(build, T=[20], targets=["and3"], m_high=64, max_trials=8, store="card.sqlite")
for row in card.rows:
    if row.accuracy == 1.0:
        needed = row.m_star if row.m_star is not None else card.note(row)
        print(f"{row.learner:20} m* = {needed}")
print(f"no learner can do with fewer than about {card.rows[0].floor} examples")
