"""Learners from scikit-learn, each with good settings for bits. Needs `capax[learners]`.

lasso      logistic regression with an L1 penalty, strength chosen by cross-validation:
           the convex learner that is known to need log T examples (Ng 2004)
ridge      the same with an L2 penalty: rotation invariant, known to need about T
tree       one decision tree, grown until it is pure
forest     100 trees on bootstrap samples
boosting   100 small trees, each on the errors of the earlier ones
neighbours the 5 nearest by Hamming distance
"""

from functools import cache
from typing import Any

import numpy as np

from capax.errors import InputError

_STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FOLDS, _STEPS = 5, 1000


def lasso() -> Any:
    """L1 logistic regression on bits as signs; C from {0.01 .. 100} by 5-fold cross-validation."""
    return _logistic(1.0)


def ridge() -> Any:
    """L2 logistic regression on bits as signs; C by cross-validation."""
    return _logistic(0.0)


def tree(max_depth: int | None = None) -> Any:
    """A decision tree (Gini impurity)."""
    return _sklearn("tree").DecisionTreeClassifier(max_depth=max_depth)


def forest(trees: int = 100) -> Any:
    """A random forest."""
    return _sklearn("ensemble").RandomForestClassifier(n_estimators=trees)


def boosting(trees: int = 100, max_depth: int = 3) -> Any:
    """Gradient boosting with the logistic loss."""
    made = _sklearn("ensemble").GradientBoostingClassifier
    return made(n_estimators=trees, max_depth=max_depth)


def neighbours(k: int = 5) -> Any:
    """k nearest neighbours."""
    # On bits, Euclid's distance is the root of Hamming's, computed by one matrix product.
    made = _sklearn("neighbors").KNeighborsClassifier
    return made(n_neighbors=k, metric="euclidean", algorithm="brute")


class _Signs:
    """An estimator on signs instead of bits, which also works with too few examples for folds."""

    def __init__(self, l1_ratio: float) -> None:
        self._l1_ratio = l1_ratio
        self._model: Any = None

    def fit(self, X: Any, y: Any) -> "_Signs":
        """Choose C by cross-validation if every fold has both labels, else C = 1."""
        rarest = min((y == 0).sum(), (y == 1).sum())
        if rarest == 0:
            self._model = _Constant(int(y[0]))
            return self
        choose, signs = bool(rarest >= _FOLDS), 2.0 * X - 1.0
        if choose and _liblinear_is_known():
            self._model = _in_one_go(signs, y, self._l1_ratio)
        else:
            self._model = _by_the_book(signs, y, self._l1_ratio, choose=choose)
        return self

    def predict(self, X: Any) -> Any:
        """Labels."""
        return self._model.predict(2.0 * X - 1.0)


def _by_the_book(X: Any, y: Any, l1_ratio: float, *, choose: bool) -> Any:
    """scikit-learn's own estimators. choose: C by cross-validation."""
    linear = _sklearn("linear_model")
    shared, penalty = {"solver": "liblinear", "max_iter": _STEPS}, _penalty(linear, l1_ratio)
    if not choose:
        return linear.LogisticRegression(C=1.0, **penalty["plain"], **shared).fit(X, y)
    cross = {"Cs": _STRENGTHS, "cv": _FOLDS, "scoring": "accuracy"}
    return linear.LogisticRegressionCV(**cross, **penalty["cv"], **shared).fit(X, y)


class _FittedLine:
    """A weight vector and an intercept, liblinear's last weight."""

    def __init__(self, weights: Any) -> None:
        self.coef_, self.intercept_ = weights[None, :-1], weights[-1:]

    def predict(self, X: Any) -> Any:
        """Labels."""
        return (X @ self.coef_[0] + self.intercept_[0] > 0).astype(int)


def _in_one_go(X: Any, y: Any, l1_ratio: float) -> _FittedLine:
    """The same numbers as `LogisticRegressionCV`, to the last bit, without its input checks.

    There are 46 fits of a few milliseconds or less: the checks take four to ten times as long (20
    to 100 bits, 40 to 80 examples). Folds, seeds from NumPy's generator, their order and the calls
    of liblinear are the same.
    """
    kind, y = _L1 if l1_ratio else _L2, y.astype(np.float64)
    scores = np.zeros(len(_STRENGTHS))
    for seen, held in _sklearn("model_selection").StratifiedKFold(_FOLDS).split(X, y):
        for i, strength in enumerate(_STRENGTHS):
            answers = _FittedLine(_liblinear(X[seen], y[seen], strength, kind)).predict(X[held])
            scores[i] += np.mean(answers == y[held])
    return _FittedLine(_liblinear(X, y, _STRENGTHS[int(np.argmax(scores))], kind))


_L1, _L2 = 6, 0  # liblinear's numbers of logistic regression with these penalties


def _liblinear(X: Any, y: Any, strength: float, kind: int) -> Any:
    """Weights and intercept. Of scikit-learn's own call; not a public name."""
    train = _sklearn("svm._liblinear").train_wrap
    seed = np.random.randint(np.iinfo("i").max)  # noqa: NPY002, as scikit-learn draws it
    even = np.ones(2), np.ones(len(X))  # weights of the classes, of the examples
    return train(X, y, False, kind, 1e-4, 1.0, strength, even[0], _STEPS, seed, 0.1, even[1])[0][0]


@cache
def _liblinear_is_known() -> bool:
    """Whether this scikit-learn's own call is the one that we know: a small fit says the same."""
    X, y = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]] * 2), np.array([1, 1, 0] * 2)
    state = np.random.get_state()  # noqa: NPY002
    try:
        known = _by_the_book(X, y, 1.0, choose=False)
        weights = _liblinear(X, y.astype(np.float64), 1.0, _L1)
        return bool(np.allclose(weights, [*known.coef_[0], *known.intercept_], atol=1e-3))
    except (ImportError, AttributeError, TypeError, ValueError, IndexError):
        return False
    finally:
        np.random.set_state(state)  # noqa: NPY002


class _Constant:
    def __init__(self, label: int) -> None:
        self._label = label

    def predict(self, X: Any) -> Any:
        """The one label that was seen."""
        return [self._label] * len(X)


def _logistic(l1_ratio: float) -> Any:
    _sklearn("linear_model")
    return _Signs(l1_ratio)


def _penalty(linear: Any, l1_ratio: float) -> dict[str, dict[str, Any]]:
    """The argument for the penalty: `l1_ratio` from scikit-learn 1.8 on, a name before."""
    parameters = linear.LogisticRegressionCV().get_params()
    if "l1_ratios" in parameters and parameters.get("penalty") == "deprecated":
        extra = {"use_legacy_attributes": False} if "use_legacy_attributes" in parameters else {}
        return {"cv": {"l1_ratios": (l1_ratio,), **extra}, "plain": {"l1_ratio": l1_ratio}}
    name = {"penalty": "l1" if l1_ratio else "l2"}
    return {"cv": name, "plain": name}


def _sklearn(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"sklearn.{module}")
    except ModuleNotFoundError:
        raise InputError(
            "learner: scikit-learn is not installed; pip install 'capax[learners]'"
        ) from None
