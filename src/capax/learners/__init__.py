"""Any learner: the zoo by name, and adapters for anything that can be fitted.

A learner is `fit(X, y, *, key) -> predict`: X [m, T] bits, y [m] labels 0 and 1, `key` an integer
that seeds everything random; `predict(X)` gives labels (`answers` has the rule). `references`
finds the user's own (`mine.py:build`, `sklearn.tree.DecisionTreeClassifier`), `adapters` turns
scikit-learn estimators, PyTorch modules and factories into it, `isolation` runs it in a process of
its own with a time limit. Architectures that the engine trains in its lanes are in `zoo`, the
user's own JAX modules in `factories`; `names` knows all.
"""

from capax.learners.answers import accuracy_of as accuracy_of
from capax.learners.names import Entry as Entry
from capax.learners.names import entry_of as entry_of
from capax.learners.names import known_names as known_names
