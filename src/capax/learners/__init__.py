"""Learners: the zoo by name, and adapters for objects with a fit method.

A learner is `fit(X, y, *, key) -> predict`: X [m, T] bits, y [m] labels 0 and 1, `key` an integer
that seeds all random choices; `predict(X)` gives labels (`answers` has the rule). `references`
finds the user's learners (`mine.py:build`, `sklearn.tree.DecisionTreeClassifier`), `adapters`
converts scikit-learn estimators, PyTorch modules and factories, `isolation` runs a learner in a
separate process with a time limit. Architectures that the engine trains in its lanes are in `zoo`,
the user's JAX modules in `factories`; `names` finds all of them.
"""

from capax.learners.answers import accuracy_of as accuracy_of
from capax.learners.names import Entry as Entry
from capax.learners.names import entry_of as entry_of
from capax.learners.names import known_names as known_names
